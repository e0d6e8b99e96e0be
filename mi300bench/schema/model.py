"""What a fit hands on (`Prediction`), and what a trainer tells of its model (`ModelDescription`)."""

from dataclasses import dataclass, field

from mi300bench.schema.doubt import Doubt

# A value of which half the interval is nearly as large as itself is not known.
KNOWN = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value and what it is known to lie between."""

    low: float
    mid: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.mid <= self.high:
            raise ValueError(f"not an interval: {self.low} <= {self.mid} <= {self.high}")

    @property
    def as_ratio(self) -> str:
        """Return the words of a ratio; where the interval has no width, nothing tells how sure it is."""
        return f"{self.mid:.3f} " + (
            f"({self.low:.3f} to {self.high:.3f})"
            if self.low < self.high
            else "(nothing tells how sure)"
        )

    @property
    def as_spread(self) -> str:
        """Return half the width over the middle as words; where that is nearly the value itself, it is not known."""
        half = (self.high - self.low) / 2 / self.mid if self.mid else 1.0
        return f"{half:.1%}" if half < KNOWN else "unknown"

    def overlaps(self, other: "Interval") -> bool:
        """Return whether both could be the same value."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a fitted model says, between what bounds, from which records, with which doubts."""

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
    """One matrix product of a model: C[M,N] = A[M,K] B[K,N], `count` times a step; K is the reduction."""

    name: str
    m: int
    n: int
    k: int
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """A model as numbers: no framework is needed to make or read it.

    `parameters` are the trainable tensors, `width` is the hidden width, `flop_per_token` the useful FLOP of a training step.
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
    """The most bytes that training holds at once on a rank, at which moment, and of what it consists then."""

    peak_bytes: float
    moment: str
    parts: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshTraffic:
    """What a step on a mesh exchanges.

    `layers` of `weight_bytes` each; `token_bytes` of one token's activations; `tokens` of the step over
    all devices; `all_reduces` of a layer's activations in a step; the batch in `parts` one after the
    other; `gradient_bytes` that a device gives to the reduction of each part.
    """

    layers: int
    weight_bytes: float
    token_bytes: float
    tokens: int
    all_reduces: int
    parts: int = 1
    gradient_bytes: float = 0.0
