"""What a device does for a measurement: it times, flushes its cache, marks moments, tells its conditions."""

import abc
from collections.abc import Callable
from typing import Any

from mi300bench.schema.doubt import Doubt
from mi300bench.schema.record import Scalar

# Where the size of the last-level cache is not told, this much is assumed: no accelerator known to us has more.
ASSUMED_CACHE_BYTES = 512 * 1024**2


class AbstractDevice(abc.ABC):
    """A device under one framework."""

    name: str
    arch: str
    compute_units: int
    memory_bytes: int
    cache_bytes: int | None
    torch_name: str  # what torch calls it: "cpu", "cuda:3"
    fp8: str  # torch's name of the 8-bit type that the device computes with: gfx942 has the fnuz kind
    backend: str  # the communication backend that fits
    is_asynchronous: bool  # whether a call returns before its work is done
    ever_run: bool  # whether the authors have run this code path on such a device

    @property
    def flush_bytes(self) -> int:
        """Return how much is written before a cold sample: more than twice the last-level cache."""
        return int(2.2 * (self.cache_bytes or ASSUMED_CACHE_BYTES))

    @abc.abstractmethod
    def seconds(self, call: Callable[[], None], calls: int) -> float:
        """Return the seconds that a batch of `calls` calls took on the device, per call."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Write over the last-level cache."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Wait until everything enqueued is done."""

    @abc.abstractmethod
    def mark(self) -> Any:
        """Return a mark of this moment in the device's order of work."""

    @abc.abstractmethod
    def between(self, first: Any, second: Any) -> float:
        """Return the seconds from one mark to another. Synchronises."""

    @abc.abstractmethod
    def conditions(self) -> dict[str, Scalar]:
        """Return framework, library and device facts that a record carries."""

    @abc.abstractmethod
    def readings(self) -> dict[str, float]:
        """Return clock_hz, power_w and temperature_c where the device tells them. Off the timed path."""

    @abc.abstractmethod
    def peak_memory(self, call: Callable[[], None]) -> float:
        """Return the most bytes that `call` held beyond what was held before it."""

    @abc.abstractmethod
    def held_memory(self, call: Callable[[], None]) -> tuple[float, float]:
        """Return what this process held of the device's memory before `call`, and at most until after it, in bytes.

        More than its tensors: an allocator keeps what was freed, a library its scratch. This is what a limit counts.
        """

    @abc.abstractmethod
    def doubts(self) -> tuple[Doubt, ...]:
        """Return why measurements on this device may not be trusted; the node's own doubts come from hw."""
