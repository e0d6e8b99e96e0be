"""The types that fits and trainers return: intervals, predictions and model descriptions."""

from dataclasses import dataclass, field

from mi300bench.schema.doubt import Doubt

# A value is unknown if half the width of its interval is nearly as large as the value itself.
LARGEST_SPREAD = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with its lower and upper bound."""

    low: float
    mid: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.mid <= self.high:
            raise ValueError(
                f"an interval needs low <= mid <= high (got {self.low}, {self.mid}, {self.high})"
            )

    @property
    def as_ratio(self) -> str:
        """Return the ratio and its interval as text; an interval without width is unknown."""
        if self.low < self.high:
            return f"{self.mid:.3f} ({self.low:.3f} to {self.high:.3f})"
        return f"{self.mid:.3f} (no interval: too few runs)"

    @property
    def as_spread(self) -> str:
        """Return half the width relative to the value as text, or "unknown" if it is too large."""
        half = (self.high - self.low) / 2 / self.mid if self.mid else 1.0
        return f"{half:.1%}" if half < LARGEST_SPREAD else "unknown"

    def overlaps(self, other: "Interval") -> bool:
        """Return whether the intervals share at least one value."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The value that a fit predicts. `evidence` are the ids of the fitted records."""

    value: Interval
    evidence: tuple[str, ...]
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One trainable tensor."""

    name: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Return the number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """One matrix product of a model, C[M,N] = A[M,K] B[K,N], `count` times per step."""

    name: str
    m: int
    n: int
    k: int
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """A model as plain numbers, which need no framework.

    `parameters` are the trainable tensors, `width` is the hidden width, `flop_per_token` are the
    useful FLOP of a training step.
    """

    name: str
    preset: str
    parameters: tuple[Parameter, ...]
    active_elements: int
    embedding_elements: int
    width: int
    flop_per_token: float
    gemms: tuple[Gemm, ...] = field(default=())

    @property
    def total_elements(self) -> int:
        """Return the number of trainable elements."""
        return sum(parameter.elements for parameter in self.parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """The peak memory of training on a rank: its bytes, its moment and its parts at that moment."""

    peak_bytes: float
    moment: str
    parts: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshTraffic:
    """What the devices of a mesh exchange in a step."""

    layers: int
    weight_bytes: float  # of one layer
    token_bytes: float  # of one token's activations
    tokens: int  # of the step, over all devices
    all_reduces: int  # of one layer's activations in a step
    parts: int = 1  # micro-batches, computed one after the other
    gradient_bytes: float = 0.0  # that a device contributes to the reduction of each part
