"""All settings of a run, as a frozen tree; and the presets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.schema import config_tree

from mi300bench_training.adamw import AdamWConfig

# The word for the framework's default, because TOML has no null.
DEFAULT = "default"
BUCKET_KEY = "ddp.bucket_cap_mb"
PRECISIONS = ("float32", "bfloat16")
SKIPS = ("input", "zero")
TOKENIZERS = ("bytes", "bpe")
EXPERTS = ("grouped", "padded", "loop")
RECOMPUTES = ("none", "block")
# The largest vocabulary of the byte-level BPE that is trained on the text.
MOST_BPE_TOKENS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class ZayaModelConfig:
    """The architecture.

    skip  a skipped token's expert output: ``prob * input`` or zero (released code differs)
    """

    vocab: int
    hidden: int
    blocks: int
    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    expert_width: int
    router_width: int
    skip: str = "input"
    rope_base: float = 10_000.0
    rope_fraction: float = 0.5
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        sizes = (
            "vocab",
            "hidden",
            "blocks",
            "heads",
            "kv_heads",
            "head_dim",
            "experts",
            "expert_width",
            "router_width",
        )
        config_tree.require_at_least(self, 1, *sizes)
        if self.heads % self.kv_heads or self.kv_heads * self.head_dim % 2:
            raise PlanError(
                "kv_heads must divide heads, and kv_heads x head_dim must be even (got "
                f"heads={self.heads}, kv_heads={self.kv_heads}, head_dim={self.head_dim})",
                hint="set heads to a multiple of kv_heads, and head_dim to an even number",
            )
        config_tree.require_one_of("skip", self.skip, SKIPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZayaDataConfig:
    """Text and batch. Without a path the text is CPython's documentation and standard library.

    A rank computes `micro_batch` sequences at once, and `accumulate` micro-batches before each
    update. A global batch has micro_batch x accumulate x ranks sequences, which do not depend on
    how they are split.
    """

    path: str = ""
    tokenizer: str = "bytes"
    seq_len: int = 128
    micro_batch: int = 4
    accumulate: int = 1

    def __post_init__(self) -> None:
        config_tree.require_one_of("tokenizer", self.tokenizer, TOKENIZERS)
        config_tree.require_at_least(self, 2, "seq_len")
        config_tree.require_at_least(self, 1, "micro_batch", "accumulate")


@dataclass(frozen=True, slots=True, kw_only=True)
class DdpConfig:
    """DistributedDataParallel.

    bucket_cap_mb  in MiB: ``default``, one cap, or a list with a cap for each bucket
    """

    bucket_cap_mb: str | float | list[float] = DEFAULT

    def __post_init__(self) -> None:
        caps = self.bucket_cap_mb if isinstance(self.bucket_cap_mb, list) else [self.bucket_cap_mb]
        good = self.bucket_cap_mb == DEFAULT or (
            caps
            and all(isinstance(c, int | float) and not isinstance(c, bool) and c > 0 for c in caps)
        )
        if not good:
            raise PlanError(
                "bucket_cap_mb must be over 0 MiB, a list of such numbers, or default "
                f"(got {self.bucket_cap_mb!r})",
                hint='set bucket_cap_mb to 25 or to "default"',
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZayaComputeConfig:
    """How the model is computed; the results are the same.

    experts     one grouped product, one batched product padded to the fullest expert, or a loop
    recompute   ``none`` keeps all activations; ``block`` keeps each block's input and computes the
                block again in backward
    loss_chunk  tokens whose logits exist at once; 0 for all tokens
    """

    experts: str = "grouped"
    recompute: str = "none"
    loss_chunk: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("experts", self.experts, EXPERTS),
            ("recompute", self.recompute, RECOMPUTES),
        ):
            config_tree.require_one_of(name, value, known)
        config_tree.require_at_least(self, 0, "loss_chunk")


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchLaunchConfig:
    """Ranks on this machine, and threads of each on a CPU; 0 lets the machine decide.

    The option ``--ranks`` has priority.
    """

    ranks: int = 0
    threads: int = 0

    def __post_init__(self) -> None:
        config_tree.require_at_least(self, 0, "ranks", "threads")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZayaOptimizerConfig(AdamWConfig):
    """AdamW, and the learning rate of the biases that balance the experts."""

    lr: float = 6e-4
    beta2: float = 0.95
    weight_decay: float = 0.1
    balance_lr: float = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class ZayaConfig:
    """All settings of one run."""

    preset: str
    model: ZayaModelConfig
    data: ZayaDataConfig = field(default_factory=ZayaDataConfig)
    compute: ZayaComputeConfig = field(default_factory=ZayaComputeConfig)
    ddp: DdpConfig = field(default_factory=DdpConfig)
    launch: TorchLaunchConfig = field(default_factory=TorchLaunchConfig)
    optimizer: ZayaOptimizerConfig = field(default_factory=ZayaOptimizerConfig)
    precision: str = "float32"
    seed: int = 1
    steps: int = 20

    def __post_init__(self) -> None:
        config_tree.require_one_of("precision", self.precision, PRECISIONS)
        config_tree.require_seed(self.seed)
        config_tree.require_at_least(self, 1, "steps")


PARTS: Mapping[str, type[Any]] = {
    "model": ZayaModelConfig,
    "data": ZayaDataConfig,
    "compute": ZayaComputeConfig,
    "ddp": DdpConfig,
    "launch": TorchLaunchConfig,
    "optimizer": ZayaOptimizerConfig,
}

PRESETS = {
    "tiny": ZayaConfig(
        preset="tiny",
        model=ZayaModelConfig(
            vocab=256,
            hidden=128,
            blocks=2,
            heads=4,
            kv_heads=2,
            head_dim=32,
            experts=4,
            expert_width=128,
            router_width=32,
        ),
        data=ZayaDataConfig(tokenizer="bytes", seq_len=128, micro_batch=4),
    ),
    "small": ZayaConfig(
        preset="small",
        model=ZayaModelConfig(
            vocab=16_384,
            hidden=512,
            blocks=7,
            heads=8,
            kv_heads=2,
            head_dim=64,
            experts=8,
            expert_width=512,
            router_width=128,
        ),
        data=ZayaDataConfig(tokenizer="bpe", seq_len=128, micro_batch=4),
    ),
    "zaya1-8b": ZayaConfig(
        preset="zaya1-8b",
        model=ZayaModelConfig(
            vocab=262_272,
            hidden=2048,
            blocks=40,
            heads=8,
            kv_heads=2,
            head_dim=128,
            experts=16,
            expert_width=2048,
            router_width=256,
        ),
        data=ZayaDataConfig(tokenizer="bpe", seq_len=4096, micro_batch=4),
        precision="bfloat16",
    ),
}


def to_text(caps: str | float | Sequence[float]) -> str:
    """Return bucket caps as a point's parameter: ``default``, ``25``, ``1,50``."""
    if isinstance(caps, str):
        return caps
    return ",".join(f"{cap:g}" for cap in (caps if isinstance(caps, Sequence) else [caps]))


def from_text(text: str) -> str | float | list[float]:
    """Return bucket caps from a point's parameter."""
    if text == DEFAULT:
        return DEFAULT
    caps = [float(part) for part in text.split(",")]
    return caps if len(caps) > 1 else caps[0]
