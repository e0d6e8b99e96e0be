"""Everything that determines a run, as a frozen tree; and the presets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.schema import config_tree

from mi300bench_training.adamw import AdamWConfig

PRECISIONS = ("float32", "bfloat16")
REMATS = ("none", "dots", "full")
# PEFT's names of Llama's linear layers.
LAYER_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
TARGETS = (*LAYER_TARGETS, "lm_head")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig:
    """The architecture. `rope_factor` 1 leaves the rotary frequencies unscaled."""

    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    norm_eps: float = 1e-5
    rope_theta: float = 500_000.0
    rope_factor: float = 8.0
    rope_low_frequency: float = 1.0
    rope_high_frequency: float = 4.0
    rope_original_length: int = 8192

    def __post_init__(self) -> None:
        config_tree.require_at_least(
            self,
            1,
            "vocab",
            "hidden",
            "layers",
            "heads",
            "kv_heads",
            "head_dim",
            "ffn",
            "rope_factor",
        )
        if self.rope_theta <= 1 or self.norm_eps < 0:
            raise PlanError(
                f"rope_theta={self.rope_theta:g}, norm_eps={self.norm_eps:g} make no model",
                hint="rope_theta 500000, norm_eps 1e-5",
            )
        if self.heads % self.kv_heads or self.head_dim % 2:
            raise PlanError(
                f"heads={self.heads}, kv_heads={self.kv_heads}, head_dim={self.head_dim} do not fit together",
                hint="kv_heads divides heads, and head_dim is even",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraConfig:
    """Adapters y = xW + scale (xA)B. The scale is alpha / rank, or with `rslora` alpha / sqrt(rank)."""

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    rslora: bool = False
    targets: tuple[str, ...] = LAYER_TARGETS

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", tuple(self.targets))  # tables hold lists
        unknown = [name for name in self.targets if name not in TARGETS]
        if unknown or not self.targets:
            raise PlanError(
                f"no adapter can be put on {unknown[0] if unknown else 'nothing'!r}",
                hint=f"some of {', '.join(TARGETS)}",
            )
        if len(set(self.targets)) < len(self.targets):
            raise PlanError(
                f"lora.targets names a layer twice: {', '.join(self.targets)}", hint="each once"
            )
        if self.rank < 1 or not 0 <= self.dropout < 1:
            raise PlanError(
                f"rank={self.rank}, dropout={self.dropout} make no adapter",
                hint="rank at least 1, dropout under 1",
            )

    @property
    def scale(self) -> float:
        """Return what the product of both adapter matrices is multiplied by."""
        return self.alpha / (self.rank**0.5 if self.rslora else self.rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshConfig:
    """How devices are arranged: data-parallel copies, fully sharded groups, model-parallel groups."""

    dp: int = 1
    fsdp: int = 1
    mp: int = 1

    def __post_init__(self) -> None:
        if min(self.dp, self.fsdp, self.mp) < 1:
            raise PlanError(
                f"a mesh of {self.dp} x {self.fsdp} x {self.mp} has no device", hint="--mesh 1,8,1"
            )

    @property
    def devices(self) -> int:
        """Return how many devices the mesh has."""
        return self.dp * self.fsdp * self.mp


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraDataConfig:
    """Text and batch: `batch` rows of `seq_len` tokens a step over all devices, in `accumulate` parts.

    Without a path CPython's documentation; without a tokenizer (a Hugging Face ``tokenizer.json``) bytes.
    """

    path: str = ""
    tokenizer: str = ""
    seq_len: int = 128
    batch: int = 8
    accumulate: int = 1

    def __post_init__(self) -> None:
        if (
            self.seq_len < 2
            or self.batch < 1
            or self.accumulate < 1
            or self.batch % self.accumulate
        ):
            raise PlanError(
                f"seq_len={self.seq_len}, batch={self.batch}, accumulate={self.accumulate} hold no training example",
                hint="seq_len at least 2, batch a multiple of accumulate",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraComputeConfig:
    """How the same numbers are computed.

    `remat`: keep every activation, keep the results of products and none of what follows from them, or keep a layer's input alone.
    `unroll` layers a step of the scan, `attention_block` queries at once, `loss_chunk` tokens whose logits
    exist at once, of all rows together and at least one of each (0: all).
    """

    remat: str = "full"
    unroll: int = 1
    attention_block: int = 512
    loss_chunk: int = 0

    def __post_init__(self) -> None:
        if self.remat not in REMATS:
            raise PlanError(
                f"remat={self.remat!r} is not known", hint=f"one of {', '.join(REMATS)}"
            )
        if self.unroll < 1 or self.attention_block < 1 or self.loss_chunk < 0:
            raise PlanError(
                f"unroll={self.unroll}, attention_block={self.attention_block}, loss_chunk={self.loss_chunk} cannot be computed",
                hint="unroll and attention_block at least 1, loss_chunk 0 or more",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraOptimizerConfig(AdamWConfig):
    """AdamW on the adapters alone; the learning rate falls along a cosine."""

    lr: float = 3e-4
    beta2: float = 0.999
    weight_decay: float = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxLaunchConfig:
    """What JAX is told before it starts on a GPU; 0 leaves it JAX's own.

    `memory_fraction` of the device for its pool (JAX's default is 0.75), `combine_bytes` up to which XLA joins collectives.
    """

    memory_fraction: float = 0.0
    combine_bytes: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.memory_fraction < 1 or self.combine_bytes < 0:
            raise PlanError(
                f"memory_fraction={self.memory_fraction}, combine_bytes={self.combine_bytes} cannot be set",
                hint="a fraction under 1, bytes of 0 or more",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraRunConfig:
    """One run, whole. `precision` is that of the frozen weights and activations; adapters and optimizer are float32.

    `weights` is a folder of Hugging Face safetensors; without one they are drawn. `adapter` is a PEFT folder to start from.
    """

    preset: str
    model: LlamaConfig
    lora: LoraConfig = field(default_factory=LoraConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    data: LoraDataConfig = field(default_factory=LoraDataConfig)
    compute: LoraComputeConfig = field(default_factory=LoraComputeConfig)
    optimizer: LoraOptimizerConfig = field(default_factory=LoraOptimizerConfig)
    launch: JaxLaunchConfig = field(default_factory=JaxLaunchConfig)
    precision: str = "bfloat16"
    weights: str = ""
    adapter: str = ""
    seed: int = 1
    steps: int = 20

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise PlanError(
                f"precision={self.precision!r} is not known", hint=f"one of {', '.join(PRECISIONS)}"
            )
        config_tree.require_seed(self.seed)
        if self.steps < 1:
            raise PlanError(f"steps={self.steps} trains nothing", hint="at least one step")
        groups = self.mesh.dp * self.mesh.fsdp
        if (self.data.batch // self.data.accumulate) % groups:
            raise PlanError(
                f"{self.data.batch // self.data.accumulate} sequences at once do not divide among dp x fsdp = {groups} groups",
                hint=f"--batch a multiple of {groups * self.data.accumulate}, or a mesh with more mp",
            )


PARTS: Mapping[str, type[Any]] = {
    "model": LlamaConfig,
    "lora": LoraConfig,
    "mesh": MeshConfig,
    "data": LoraDataConfig,
    "compute": LoraComputeConfig,
    "optimizer": LoraOptimizerConfig,
    "launch": JaxLaunchConfig,
}

PRESETS = {
    "tiny": LoraRunConfig(
        preset="tiny",
        model=LlamaConfig(vocab=384, hidden=128, layers=4, heads=4, kv_heads=2, head_dim=32, ffn=352),
        precision="float32",
    ),
    "bench": LoraRunConfig(
        preset="bench",
        model=LlamaConfig(vocab=8192, hidden=512, layers=8, heads=8, kv_heads=2, head_dim=64, ffn=1408),
        data=LoraDataConfig(seq_len=512, batch=4),
        compute=LoraComputeConfig(remat="dots", attention_block=128),
        precision="float32",
    ),
    "8b": LoraRunConfig(
        preset="8b",
        model=LlamaConfig(vocab=128_256, hidden=4096, layers=32, heads=32, kv_heads=8, head_dim=128, ffn=14_336),
    ),
    "70b": LoraRunConfig(
        preset="70b",
        model=LlamaConfig(vocab=128_256, hidden=8192, layers=80, heads=64, kv_heads=8, head_dim=128, ffn=28_672),
    ),
    "405b": LoraRunConfig(
        preset="405b",
        model=LlamaConfig(vocab=128_256, hidden=16_384, layers=126, heads=128, kv_heads=8, head_dim=128, ffn=53_248),
        mesh=MeshConfig(fsdp=8),
        data=LoraDataConfig(seq_len=64, batch=16),
    ),
}  # fmt: skip
