"""The interface of a probe: it declares its work and checks its answer; the runner times it.

The runner creates the probe with its parameters and its context (rank, number of ranks, device).
It calls `prepare` once, `call` many times, and `check` before and after sampling.
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mi300bench.schema.doubt import Doubt
from mi300bench.schema.record import Scalar, Series, Work

# The prefix of JAX probes; the rest is the name of the torch probe of the same operation.
JAX = "jax."


def operation_of(probe: str) -> str:
    """Return a probe's name without its framework: ``memory.add`` for ``jax.memory.add`` too."""
    return probe.removeprefix(JAX)


def family_of(probe: str) -> str:
    """Return the family of a probe, such as ``memory``, ``jax.memory``, ``gemm`` or ``zaya1``."""
    group = operation_of(probe).partition(".")[0]
    return f"{JAX}{group}" if probe.startswith(JAX) else group


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEntry:
    """One probe in the catalog."""

    target: str  # module:Class
    method: int  # raised when the way of measuring changes
    needs: str  # the framework
    summary: str
    ranks: int = 1  # the fewest ranks that the probe can be measured with


@dataclass(frozen=True, slots=True, kw_only=True)
class RankContext:
    """The rank of a process, the number of ranks and the device."""

    rank: int
    ranks: int
    device: Any  # an `AbstractDevice`, which this layer must not import


class AbstractProbe(abc.ABC):
    """Something that can be measured. Concrete probes are `@final`."""

    # Whether the last-level cache is flushed before each sample, which is then a single call.
    cold: bool = False
    # A sample is a multiple of this many calls: a full turn of a rotating root, a send and a reply.
    calls_multiple: int = 1

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        self.params = params
        self.context = context

    @abc.abstractmethod
    def work(self) -> Work:
        """Return the work of one `call`."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Allocate and compile. Not timed."""

    @abc.abstractmethod
    def call(self) -> None:
        """Enqueue the work once. The runner synchronises, outside the call."""

    @abc.abstractmethod
    def check(self) -> str:
        """Return why the result is wrong; empty if it is right."""

    def series(self, samples: int) -> Series:
        """Return other raw readings of the last `samples` samples. Called on every rank."""
        return {}

    def doubts(self) -> tuple[Doubt, ...]:
        """Return the probe's own doubts about this point."""
        return ()
