"""The settings of a training run, in groups that all trainers share.

Exporters and strategies read them. A trainer fills the groups that it has; the others are None. A
setting of the model's own code is a `ModelSetting`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Recompute(StrEnum):
    """What the backward pass computes again: nothing, everything except products, or layers."""

    NOTHING = "nothing"
    ALL_BUT_PRODUCTS = "all but products"
    LAYERS = "layers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Numbers of sequences of `seq_len` tokens.

    A data-parallel rank computes `micro_batch` sequences at once, and `accumulate` micro-batches
    before each update. `global_batch` is the total over micro-batches and ranks.
    """

    micro_batch: int
    accumulate: int
    global_batch: int
    seq_len: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """AdamW with linear warm-up and clipping; the learning rate falls to `final_share` of `lr`."""

    lr: float
    betas: tuple[float, float]
    weight_decay: float
    warmup_steps: int
    clip: float
    final_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Processes on this machine, and CPU threads of each; 0 lets the machine decide."""

    ranks: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """DDP's bucket caps in MiB of float32 gradients, one per bucket; empty for torch's default."""

    caps_mib: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """The mesh of devices: data-parallel copies, fully sharded groups, model-parallel groups."""

    dp: int
    fsdp: int
    mp: int

    @property
    def devices(self) -> int:
        """Return the number of devices."""
        return self.dp * self.fsdp * self.mp

    @property
    def groups(self) -> int:
        """Return the number of groups of devices with different sequences."""
        return self.dp * self.fsdp

    def __str__(self) -> str:
        return f"{self.dp},{self.fsdp},{self.mp}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """LoRA adapters, and the folders of weights and adapter that a run starts from, or empty."""

    rank: int
    alpha: float
    is_rslora: bool
    dropout: float
    targets: tuple[str, ...]
    weights: str = ""
    adapter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxClient:
    """What JAX reads before it starts on a GPU; 0 keeps JAX's default.

    `memory_fraction` is the share of the device for JAX's memory pool. XLA combines collectives up
    to `combine_bytes`.
    """

    memory_fraction: float
    combine_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSetting:
    """A setting of the model's own code: key, value, and why other frameworks do not have it."""

    key: str
    value: str | int | float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings of a run in typed groups."""

    preset: str
    precision: str
    seed: int
    steps: int
    batch: Batch
    optimizer: Optimizer
    recompute: Recompute
    ranks: Ranks | None = None
    buckets: Buckets | None = None
    mesh: Mesh | None = None
    adapters: Adapters | None = None
    jax_client: JaxClient | None = None
    model_settings: tuple[ModelSetting, ...] = ()

    @property
    def is_bf16(self) -> bool:
        """Return whether matrix products are computed in bfloat16."""
        return self.precision == "bfloat16"
