"""All settings of a run, as a frozen tree; and the presets."""

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
    """The architecture; with `rope_factor` 1 the rotary frequencies are not scaled."""

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
        config_tree.require_at_least(self, 0, "norm_eps")
        if self.rope_theta <= 1:
            raise PlanError(
                f"rope_theta must be over 1 (got {self.rope_theta:g})",
                hint="set rope_theta to 500000, as Llama 3.1 does",
            )
        if self.heads % self.kv_heads or self.head_dim % 2:
            raise PlanError(
                "kv_heads must divide heads, and head_dim must be even (got "
                f"heads={self.heads}, kv_heads={self.kv_heads}, head_dim={self.head_dim})",
                hint="set heads to a multiple of kv_heads, and head_dim to an even number",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraConfig:
    """Adapters y = xW + scale (xA)B; scale is alpha / rank, or alpha / sqrt(rank) with `rslora`."""

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    rslora: bool = False
    targets: tuple[str, ...] = LAYER_TARGETS

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", tuple(self.targets))  # tables have lists
        is_known = all(name in TARGETS for name in self.targets)
        if not self.targets or not is_known or len(set(self.targets)) < len(self.targets):
            raise PlanError(
                f"lora.targets must be different layers (got {', '.join(self.targets) or 'none'})",
                hint=f"choose from {', '.join(TARGETS)}",
            )
        config_tree.require_at_least(self, 1, "rank")
        if not 0 <= self.dropout < 1:
            raise PlanError(
                f"dropout must be at least 0 and under 1 (got {self.dropout:g})",
                hint="set dropout to 0 or 0.05",
            )

    @property
    def scale(self) -> float:
        """Return what the product of both adapter matrices is multiplied by."""
        return self.alpha / (self.rank**0.5 if self.rslora else self.rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshConfig:
    """The mesh of devices: data-parallel copies, fully sharded groups, model-parallel groups."""

    dp: int = 1
    fsdp: int = 1
    mp: int = 1

    def __post_init__(self) -> None:
        if min(self.dp, self.fsdp, self.mp) < 1:
            raise PlanError(
                f"dp, fsdp and mp of a mesh must be at least 1 (got {self.dp}, {self.fsdp}, "
                f"{self.mp})",
                hint="give --mesh 1,8,1 for 8 devices",
            )

    @property
    def devices(self) -> int:
        """Return the number of devices."""
        return self.dp * self.fsdp * self.mp


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraDataConfig:
    """Text and batch. Without a path the text is CPython's documentation.

    A step has `batch` rows of `seq_len` tokens over all devices, in `accumulate` parts. `tokenizer`
    is a Hugging Face ``tokenizer.json``; without one a token is a byte.
    """

    path: str = ""
    tokenizer: str = ""
    seq_len: int = 128
    batch: int = 8
    accumulate: int = 1

    def __post_init__(self) -> None:
        config_tree.require_at_least(self, 2, "seq_len")
        config_tree.require_at_least(self, 1, "batch", "accumulate")
        if self.batch % self.accumulate:
            raise PlanError(
                f"accumulate={self.accumulate} must divide batch={self.batch}",
                hint=f"set batch to a multiple of {self.accumulate}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraComputeConfig:
    """How the model is computed; the results are the same.

    remat            ``none`` keeps all activations, ``dots`` the results of products, ``full`` only
                     the input of each layer
    unroll           layers in each step of the scan
    attention_block  queries computed at once
    loss_chunk       tokens of all rows whose logits exist at once, at least one of each row; 0 for
                     all tokens
    """

    remat: str = "full"
    unroll: int = 1
    attention_block: int = 512
    loss_chunk: int = 0

    def __post_init__(self) -> None:
        config_tree.require_one_of("remat", self.remat, REMATS)
        config_tree.require_at_least(self, 1, "unroll", "attention_block")
        config_tree.require_at_least(self, 0, "loss_chunk")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraOptimizerConfig(AdamWConfig):
    """AdamW on the adapters; the learning rate falls along a cosine."""

    lr: float = 3e-4
    beta2: float = 0.999
    weight_decay: float = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxLaunchConfig:
    """Settings that JAX reads before it starts on a GPU; 0 keeps JAX's default.

    memory_fraction  share of the device for JAX's memory pool (its default is 0.75)
    combine_bytes    size up to which XLA combines collectives
    """

    memory_fraction: float = 0.0
    combine_bytes: int = 0

    def __post_init__(self) -> None:
        config_tree.require_at_least(self, 0, "memory_fraction", "combine_bytes")
        if self.memory_fraction >= 1:
            raise PlanError(
                f"memory_fraction must be under 1 (got {self.memory_fraction:g})",
                hint="set memory_fraction to 0.9, or to 0 for JAX's default",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraRunConfig:
    """All settings of one run.

    precision  of the frozen weights and the activations; adapters and optimizer are float32
    weights    a folder of Hugging Face safetensors; without one the weights are random
    adapter    a PEFT folder with the adapters to start from; without one they are new
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
        config_tree.require_one_of("precision", self.precision, PRECISIONS)
        config_tree.require_seed(self.seed)
        config_tree.require_at_least(self, 1, "steps")
        groups = self.mesh.dp * self.mesh.fsdp
        sequences = self.data.batch // self.data.accumulate
        if sequences % groups:
            raise PlanError(
                f"the {groups} groups of dp={self.mesh.dp} x fsdp={self.mesh.fsdp} must divide the "
                f"{sequences} sequences of batch={self.data.batch} / "
                f"accumulate={self.data.accumulate}",
                hint=f"give --batch a multiple of {groups * self.data.accumulate}, or a mesh with "
                "a larger mp",
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
        model=LlamaConfig(
            vocab=384, hidden=128, layers=4, heads=4, kv_heads=2, head_dim=32, ffn=352
        ),
        precision="float32",
    ),
    "bench": LoraRunConfig(
        preset="bench",
        model=LlamaConfig(
            vocab=8192, hidden=512, layers=8, heads=8, kv_heads=2, head_dim=64, ffn=1408
        ),
        data=LoraDataConfig(seq_len=512, batch=4),
        compute=LoraComputeConfig(remat="dots", attention_block=128),
        precision="float32",
    ),
    "8b": LoraRunConfig(
        preset="8b",
        model=LlamaConfig(
            vocab=128_256, hidden=4096, layers=32, heads=32, kv_heads=8, head_dim=128, ffn=14_336
        ),
    ),
    "70b": LoraRunConfig(
        preset="70b",
        model=LlamaConfig(
            vocab=128_256, hidden=8192, layers=80, heads=64, kv_heads=8, head_dim=128, ffn=28_672
        ),
    ),
    "405b": LoraRunConfig(
        preset="405b",
        model=LlamaConfig(
            vocab=128_256,
            hidden=16_384,
            layers=126,
            heads=128,
            kv_heads=8,
            head_dim=128,
            ffn=53_248,
        ),
        mesh=MeshConfig(fsdp=8),
        data=LoraDataConfig(seq_len=64, batch=16),
    ),
}
