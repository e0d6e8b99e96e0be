"""What a probe is: one measurable thing that declares its work and checks its answer; the harness times.

The runner makes the probe with its parameters and a context (its rank among the ranks, and its device),
calls `prepare` once, `call` many times, then `check`.
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mi300bench.schema.doubt import Doubt
from mi300bench.schema.record import Scalar, Series, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEntry:
    """One probe as the catalogue has it.

    `target` is ``module:Class``; `method` is raised when the way of measuring changes; `needs` is the framework; `ranks` the
    fewest that make sense.
    """

    target: str
    method: int
    needs: str
    summary: str
    ranks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RankContext:
    """A process in its world: its rank, how many there are, and its device (a `mi300bench.device` class)."""

    rank: int
    ranks: int
    device: Any


class AbstractProbe(abc.ABC):
    """One measurable thing. Concrete probes are `@final`."""

    # Flush the last-level cache before each sample, which is then a single call.
    cold: bool = False
    # A sample holds a multiple of this many calls (a rotating root comes round, a ping has its pong).
    calls_multiple: int = 1

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        self.params = params
        self.context = context

    @abc.abstractmethod
    def work(self) -> Work:
        """Return what one `call` does."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Allocate and compile. Not timed."""

    @abc.abstractmethod
    def call(self) -> None:
        """Enqueue the work once. The harness synchronises, outside."""

    @abc.abstractmethod
    def check(self) -> str:
        """Return why the result is wrong, or the empty string."""

    def series(self, samples: int) -> Series:
        """Return further raw readings of the last `samples` samples, by name. Called on every rank."""
        return {}

    def doubts(self) -> tuple[Doubt, ...]:
        """Return what the probe itself knows to be doubtful about this point."""
        return ()
