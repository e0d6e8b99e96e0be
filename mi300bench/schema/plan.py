"""What to measure: the points, the time limit of each, and the number of passes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from mi300bench.schema.record import Scalar, World, short_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """When sampling stops: the median is known within `relative_ci`, or `max_seconds` are over."""

    relative_ci: float = 0.02
    min_samples: int = 5
    max_seconds: float = 0.5
    warmup_seconds: float = 0.1
    min_warmup_calls: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One set of parameters of one probe. `target` is the class of the probe, ``module:Class``."""

    probe: str
    method: int
    target: str
    params: Mapping[str, Scalar]
    world: World = field(default_factory=World)
    environment: Mapping[str, str] = field(default_factory=dict)
    stop: Stop = field(default_factory=Stop)

    @property
    def key(self) -> str:
        """Identify the point across runs, by probe, method, parameters, environment and world."""
        world = asdict(self.world)
        if world["framework"] == "torch":  # keys in older records do not include the framework
            del world["framework"]
        return short_hash(
            [self.probe, self.method, dict(self.params), dict(self.environment), world]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A question, the points that answer it, and the number of passes.

    If `interleaved`, each point has its own process and the order is reversed from pass to pass
    (ABBA), as a comparison needs it. Otherwise, points of one world share a process in each pass.
    """

    question: str
    points: tuple[Point, ...]
    passes: int = 3
    interleaved: bool = False

    @property
    def key(self) -> str:
        """Identify the plan for `--resume`."""
        return short_hash([[point.key for point in self.points], self.passes])
