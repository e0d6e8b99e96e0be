"""Everything that determines a run, as a frozen tree; and the presets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.schema import config_tree

from mi300bench_training.adamw import AdamWConfig

# The word for "what the framework does by itself" (TOML has no null).
DEFAULT = "default"
BUCKET_KEY = "ddp.bucket_cap_mb"
PRECISIONS = ("float32", "bfloat16")
SKIPS = ("input", "zero")
EXPERTS = ("grouped", "padded", "loop")
RECOMPUTES = ("none", "block")
# Tokens of the built-in tokenizers: bytes, or byte-level BPE trained on the text.
MOST_BPE_TOKENS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class ZayaModelConfig:
    """The architecture. A skipped token's expert output is ``prob * input`` or zero (released code differs)."""

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
                f"heads={self.heads}, kv_heads={self.kv_heads}, head_dim={self.head_dim} do not fit together",
                hint="kv_heads divides heads, and kv_heads x head_dim is even",
            )
        if self.skip not in SKIPS:
            raise PlanError(f"skip={self.skip!r} is not known", hint=f"one of {', '.join(SKIPS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZayaDataConfig:
    """Text and batch. An empty path is CPython's documentation and standard library.

    `micro_batch` sequences a rank at once, `accumulate` of those before each update: a global batch is
    micro_batch x accumulate x ranks sequences, the same ones however they are shared out.
    """

    path: str = ""
    tokenizer: str = "bytes"
    seq_len: int = 128
    micro_batch: int = 4
    accumulate: int = 1

    def __post_init__(self) -> None:
        if self.tokenizer not in ("bytes", "bpe"):
            raise PlanError(f"tokenizer={self.tokenizer!r} is not known", hint="one of bytes, bpe")
        if self.seq_len < 2 or self.micro_batch < 1 or self.accumulate < 1:
            raise PlanError(
                f"seq_len={self.seq_len}, micro_batch={self.micro_batch}, accumulate={self.accumulate} hold no training example",
                hint="seq_len at least 2, micro_batch and accumulate at least 1",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DdpConfig:
    """DistributedDataParallel. `bucket_cap_mb` in MiB: ``default``, one cap, or a list of caps, one a bucket."""

    bucket_cap_mb: str | float | list[float] = DEFAULT

    def __post_init__(self) -> None:
        caps = self.bucket_cap_mb if isinstance(self.bucket_cap_mb, list) else [self.bucket_cap_mb]
        good = self.bucket_cap_mb == DEFAULT or (
            caps
            and all(isinstance(c, int | float) and not isinstance(c, bool) and c > 0 for c in caps)
        )
        if not good:
            raise PlanError(
                f"bucket_cap_mb={self.bucket_cap_mb!r} is no bucket size",
                hint='"default", a positive number of MiB, or a list of such numbers',
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZayaComputeConfig:
    """How the same numbers are computed.

    `experts`: one grouped product, one batched product padded to the fullest expert, or a loop over experts.
    `recompute`: keep every activation, or only each block's input and compute the block again in backward.
    `loss_chunk`: tokens whose logits exist at once; 0 is all of them.
    """

    experts: str = "grouped"
    recompute: str = "none"
    loss_chunk: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("experts", self.experts, EXPERTS),
            ("recompute", self.recompute, RECOMPUTES),
        ):
            if value not in known:
                raise PlanError(f"{name}={value!r} is not known", hint=f"one of {', '.join(known)}")
        if self.loss_chunk < 0:
            raise PlanError(
                f"loss_chunk={self.loss_chunk} is no number of tokens",
                hint="0 for all tokens at once, or 512",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchLaunchConfig:
    """How many ranks on this machine, and threads each on a CPU; 0 leaves it to the machine. ``--ranks`` overrules it."""

    ranks: int = 0
    threads: int = 0

    def __post_init__(self) -> None:
        if self.ranks < 0 or self.threads < 0:
            raise PlanError(
                f"ranks={self.ranks}, threads={self.threads} cannot be launched",
                hint="0 leaves it to the machine",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZayaOptimizerConfig(AdamWConfig):
    """AdamW, and the step of the experts' balancing biases."""

    lr: float = 6e-4
    beta2: float = 0.95
    weight_decay: float = 0.1
    balance_lr: float = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class ZayaConfig:
    """One run, whole."""

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
        if self.precision not in PRECISIONS:
            raise PlanError(
                f"precision={self.precision!r} is not known", hint=f"one of {', '.join(PRECISIONS)}"
            )
        config_tree.require_seed(self.seed)
        if self.steps < 1:
            raise PlanError(f"steps={self.steps} trains nothing", hint="at least one step")


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
            vocab=256, hidden=128, blocks=2, heads=4, kv_heads=2, head_dim=32, experts=4, expert_width=128,
            router_width=32,
        ),
        data=ZayaDataConfig(tokenizer="bytes", seq_len=128, micro_batch=4),
    ),
    "small": ZayaConfig(
        preset="small",
        model=ZayaModelConfig(
            vocab=16_384, hidden=512, blocks=7, heads=8, kv_heads=2, head_dim=64, experts=8, expert_width=512,
            router_width=128,
        ),
        data=ZayaDataConfig(tokenizer="bpe", seq_len=128, micro_batch=4),
    ),
    "zaya1-8b": ZayaConfig(
        preset="zaya1-8b",
        model=ZayaModelConfig(
            vocab=262_272, hidden=2048, blocks=40, heads=8, kv_heads=2, head_dim=128, experts=16, expert_width=2048,
            router_width=256,
        ),
        data=ZayaDataConfig(tokenizer="bpe", seq_len=4096, micro_batch=4),
        precision="bfloat16",
    ),
}  # fmt: skip


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
