"""The CPU under torch. Calls are synchronous, so the host clock is the device clock."""

import os
import platform
import time
from collections.abc import Callable
from typing import Any, final

import torch

from mi300bench.device.base import AbstractDevice
from mi300bench.hw import inventory
from mi300bench.schema.doubt import CacheUnknown, Doubt
from mi300bench.schema.record import Scalar

CLOCK_FILE = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"


@final
class TorchCpu(AbstractDevice):
    """The CPU, with `threads` threads; 0 leaves torch's default."""

    def __init__(self, *, threads: int = 0) -> None:
        if threads:
            torch.set_num_threads(threads)
        self.name = inventory.cpu_name()
        self.arch = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
        self.compute_units = len(os.sched_getaffinity(0))
        self.memory_bytes, _ = inventory.memory()
        self.cache_bytes = inventory.cpu_cache_bytes()
        self.torch_name = "cpu"
        self.fp8 = "float8_e4m3fn"
        self.backend = "gloo"
        self.is_asynchronous = False
        self.ever_run = True
        self._flushed: torch.Tensor | None = None

    def seconds(self, call: Callable[[], None], calls: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return (time.perf_counter_ns() - start) * 1e-9 / calls

    def flush(self) -> None:
        if self._flushed is None:
            self._flushed = torch.empty(self.flush_bytes // 4, dtype=torch.float32)
        self._flushed.add_(1.0)

    def synchronize(self) -> None:
        """Do nothing: calls are synchronous."""

    def mark(self) -> int:
        return time.perf_counter_ns()

    def between(self, first: Any, second: Any) -> float:
        return float(second - first) * 1e-9

    def conditions(self) -> dict[str, Scalar]:
        return {
            "framework": "torch",
            "framework_version": torch.__version__,
            "runtime": "",
            "blas": "mkl+onednn" if torch.backends.mkl.is_available() else "onednn",
            "device_arch": self.arch,
            "compute_units": self.compute_units,
            "cache_bytes": self.cache_bytes,
            "threads": torch.get_num_threads(),
            "affinity": ",".join(str(core) for core in sorted(os.sched_getaffinity(0))),
            "python": platform.python_version(),
        }

    def readings(self) -> dict[str, float]:
        """Return the core clock if the kernel reports it; virtual machines rarely do."""
        try:
            # Faster than pathlib, and every point reads this.
            with open(CLOCK_FILE) as file:  # noqa: PTH123
                return {"clock_hz": float(file.read()) * 1e3}
        except (OSError, ValueError):
            return {}

    def peak_memory(self, call: Callable[[], None]) -> float:
        """Return the allocator's peak in `call`, from the allocation events of the profiler."""
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profile:
            call()
        held = peak = 0
        for event in profile.profiler.kineto_results.events():
            if event.name() == "[memory]":
                held += event.nbytes()
                peak = max(peak, held)
        return float(peak)

    def held_memory(self, call: Callable[[], None]) -> tuple[float, float]:
        """Return the resident set before `call` and its peak."""
        return inventory.resident_around(call)

    def doubts(self) -> tuple[Doubt, ...]:
        return () if self.cache_bytes else (CacheUnknown(assumed_bytes=self.flush_bytes // 2),)
