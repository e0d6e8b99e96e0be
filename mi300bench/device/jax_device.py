"""CPU, CUDA and ROCm under JAX. The work of a call is done when its result is ready.

See `AbstractDevice.pending`: a JAX probe stores the result of each call there.
"""

import os
import platform
import time
from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp

from mi300bench.device.base import AbstractDevice
from mi300bench.hw import facts, inventory
from mi300bench.schema.doubt import CacheUnknown, Doubt, NeverRun
from mi300bench.schema.record import Scalar


@final
class JaxDevice(AbstractDevice):
    """The first local device of the default backend. On a CPU, virtual devices share its cores."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.first = jax.local_devices()[0]
        self.is_cpu = self.first.platform == "cpu"
        self.name = inventory.cpu_name() if self.is_cpu else str(self.first.device_kind)
        self.arch = (
            platform.machine()
            if self.is_cpu
            else str(getattr(self.first, "compute_capability", ""))
        )
        self.compute_units = (
            len(os.sched_getaffinity(0))
            if self.is_cpu
            else int(getattr(self.first, "core_count", 0) or 0)
        )
        stats = self.first.memory_stats() or {}
        self.memory_bytes = int(
            stats.get("bytes_limit", inventory.memory()[0] if self.is_cpu else 0)
        )
        published = facts.find_device(self.name, arch=self.arch, compute_units=self.compute_units)
        cache = published.facts.get("cache_bytes") if published else None
        self.cache_bytes = (
            inventory.cpu_cache_bytes() if self.is_cpu else int(cache.value) if cache else None
        )
        self.torch_name = ""
        self.fp8 = ""
        self.backend = "xla"
        self.is_asynchronous = True
        self.ever_run = self.is_cpu
        self._flushed: jax.Array | None = None
        self._add = jax.jit(lambda x: x + 1.0, donate_argnums=0)

    def seconds(self, call: Callable[[], None], calls: int) -> float:
        self.synchronize()
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        self.synchronize()
        return (time.perf_counter_ns() - start) * 1e-9 / calls

    def flush(self) -> None:
        if self._flushed is None:
            self._flushed = jnp.zeros(self.flush_bytes // 4, jnp.float32)
        self._flushed = self._add(self._flushed)
        self._flushed.block_until_ready()

    def synchronize(self) -> None:
        jax.block_until_ready(self.pending)

    def mark(self) -> int:
        """Wait for the pending result, then return the time of the host clock."""
        self.synchronize()
        return time.perf_counter_ns()

    def between(self, first: Any, second: Any) -> float:
        return float(second - first) * 1e-9

    def conditions(self) -> dict[str, Scalar]:
        import jaxlib.version

        client = self.first.client
        return {
            "framework": "jax",
            "framework_version": f"{jax.__version__} (jaxlib {jaxlib.version.__version__})",
            "runtime": "" if self.is_cpu else str(getattr(client, "platform_version", "")),
            "blas": "xla",
            "device_arch": self.arch,
            "compute_units": self.compute_units,
            "cache_bytes": self.cache_bytes,
            "affinity": ",".join(str(core) for core in sorted(os.sched_getaffinity(0))),
            "python": platform.python_version(),
        }

    def readings(self) -> dict[str, float]:
        """Return nothing: JAX reports no clock, power or temperature."""
        return {}

    def peak_memory(self, call: Callable[[], None]) -> float:
        """Return the allocator's peak in `call`; on a CPU, the growth of the resident set."""
        if self.is_cpu:
            before, peak = self.held_memory(call)
            return peak - before
        before = (self.first.memory_stats() or {}).get("bytes_in_use", 0)
        call()
        self.synchronize()
        return float((self.first.memory_stats() or {}).get("peak_bytes_in_use", 0) - before)

    def held_memory(self, call: Callable[[], None]) -> tuple[float, float]:
        """Return the resident set before `call` and its peak; on a GPU, the allocator's pool."""
        if self.is_cpu:

            def call_and_wait() -> None:
                call()
                self.synchronize()

            return inventory.resident_around(call_and_wait)
        stats = self.first.memory_stats() or {}
        before = float(stats.get("pool_bytes", stats.get("bytes_in_use", 0)))
        call()
        self.synchronize()
        after = self.first.memory_stats() or {}
        return before, float(after.get("peak_pool_bytes", after.get("peak_bytes_in_use", 0)))

    def doubts(self) -> tuple[Doubt, ...]:
        doubts: list[Doubt] = [] if self.ever_run else [NeverRun(device=self.name)]
        if self.cache_bytes is None:
            doubts.append(CacheUnknown(assumed_bytes=self.flush_bytes // 2))
        return tuple(doubts)
