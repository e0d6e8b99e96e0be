"""The interface of a device: it times calls, flushes its cache and reports its conditions."""

import abc
from collections.abc import Callable
from typing import Any

from mi300bench.schema.doubt import Doubt
from mi300bench.schema.record import Scalar

# Assumed if the size of the last-level cache is unknown: no accelerator known to us has more.
ASSUMED_CACHE_BYTES = 512 * 1024**2


class AbstractDevice(abc.ABC):
    """A device under one framework."""

    name: str
    arch: str
    compute_units: int
    memory_bytes: int
    cache_bytes: int | None
    torch_name: str  # the device in torch: "cpu", "cuda:3"; empty under JAX
    fp8: str  # torch's name of the device's 8-bit type: a fnuz type on gfx942
    backend: str  # the communication backend
    is_asynchronous: bool  # whether a call returns before its work is done
    ever_run: bool  # whether we have run this code on such a device
    # JAX only: the result of the last call, an array or a tree of arrays. JAX has no stream to wait
    # for, so each call of a JAX probe must store its result here, and `synchronize` waits for it.
    pending: Any = ()

    @property
    def flush_bytes(self) -> int:
        """Return the bytes to write before a cold sample: over twice the last-level cache."""
        return int(2.2 * (self.cache_bytes or ASSUMED_CACHE_BYTES))

    @abc.abstractmethod
    def seconds(self, call: Callable[[], None], calls: int) -> float:
        """Return the seconds per call of a batch of `calls` calls on the device."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Overwrite the last-level cache."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Wait until all enqueued work is done."""

    @abc.abstractmethod
    def mark(self) -> Any:
        """Return a mark of this moment in the device's queue of work."""

    @abc.abstractmethod
    def between(self, first: Any, second: Any) -> float:
        """Return the seconds between two marks. Waits for the second."""

    @abc.abstractmethod
    def conditions(self) -> dict[str, Scalar]:
        """Return the conditions of a record that describe framework, libraries and device."""

    @abc.abstractmethod
    def readings(self) -> dict[str, float]:
        """Return clock_hz, power_w and temperature_c, as far as the device reports them."""

    @abc.abstractmethod
    def peak_memory(self, call: Callable[[], None]) -> float:
        """Return the peak memory of `call` in bytes, beyond what was allocated before it."""

    @abc.abstractmethod
    def held_memory(self, call: Callable[[], None]) -> tuple[float, float]:
        """Return the bytes that this process holds on the device before `call`, and its peak.

        This is what a memory limit counts. It is more than the tensors: an allocator keeps freed
        memory, and libraries have scratch memory.
        """

    @abc.abstractmethod
    def doubts(self) -> tuple[Doubt, ...]:
        """Return the doubts about measurements on this device; `hw` adds those of the node."""
