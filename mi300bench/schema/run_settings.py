"""What a training run is set to, in groups that every trainer shares. Exporters and strategies read these.

A trainer fills the groups that it has. A group that is None does not exist for it: a trainer without
a mesh has no mesh. What a group cannot hold, because it is the model's own code, is a `ModelSetting`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Recompute(StrEnum):
    """What is computed again in the backward pass: nothing, all but products, or whole layers."""

    NOTHING = "nothing"
    ALL_BUT_PRODUCTS = "all but products"
    LAYERS = "layers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Sequences of `seq_len` tokens. `micro_batch` is of one data-parallel rank at once.

    `accumulate` micro-batches come before each update; `global_batch` counts all ranks and all of them.
    """

    micro_batch: int
    accumulate: int
    global_batch: int
    seq_len: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """AdamW with linear warm-up and gradient clipping; the rate falls to `final_share` of `lr`."""

    lr: float
    betas: tuple[float, float]
    weight_decay: float
    warmup_steps: int
    clip: float
    final_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Processes on this machine and CPU threads of each; 0 leaves it to the machine."""

    ranks: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """DDP's bucket caps in MiB of float32 gradients, one a bucket; empty: torch's own default."""

    caps_mib: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """How devices are arranged: data-parallel copies, fully sharded groups, model-parallel groups."""

    dp: int
    fsdp: int
    mp: int

    @property
    def devices(self) -> int:
        """Return how many devices the mesh has."""
        return self.dp * self.fsdp * self.mp

    @property
    def groups(self) -> int:
        """Return how many groups of devices have sequences of their own."""
        return self.dp * self.fsdp

    def __str__(self) -> str:
        return f"{self.dp},{self.fsdp},{self.mp}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """LoRA adapters, and what a run starts from: folders of weights and of an adapter, or empty."""

    rank: int
    alpha: float
    is_rslora: bool
    dropout: float
    targets: tuple[str, ...]
    weights: str = ""
    adapter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxClient:
    """What JAX reads before it starts on a GPU; 0 leaves JAX's own value.

    `memory_fraction` is the share of the device for JAX's pool. XLA joins collectives up to `combine_bytes`.
    """

    memory_fraction: float
    combine_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSetting:
    """A setting that is the model's own code: its key, its value, and why no other framework has it."""

    key: str
    value: str | int | float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """A run in typed groups."""

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
        """Return whether products are computed in bfloat16."""
        return self.precision == "bfloat16"
