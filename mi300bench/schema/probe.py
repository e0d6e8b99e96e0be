"""What a probe is: one measurable thing that declares its work and checks its answer; the harness times.

The runner makes the probe with its parameters and a seat (its place among the ranks and its device),
calls `prepare` once, `call` many times, then `check`.
"""

import abc
from collections.abc import Mapping
from typing import Any, Protocol

from mi300bench.schema.doubt import Doubt
from mi300bench.schema.record import Scalar, Series, Work


class Seat(Protocol):
    """A process's place: which rank it is, of how many, on what device (a `mi300bench.device.Device`)."""

    @property
    def rank(self) -> int: ...

    @property
    def ranks(self) -> int: ...

    @property
    def device(self) -> Any: ...


class AbstractProbe(abc.ABC):
    """One measurable thing. Concrete probes are `@final`."""

    # Flush the last-level cache before each sample, which is then a single call.
    cold: bool = False
    # A sample holds a multiple of this many calls (a rotating root comes round, a ping has its pong).
    calls_multiple: int = 1

    def __init__(self, params: Mapping[str, Scalar], seat: Seat) -> None:
        self.params = params
        self.seat = seat

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
