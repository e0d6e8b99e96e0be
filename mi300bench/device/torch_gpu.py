"""CUDA and ROCm under torch: one code path, because ROCm builds also use ``torch.cuda``."""

import contextlib
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import torch

from mi300bench.device.base import AbstractDevice
from mi300bench.hw import facts
from mi300bench.schema.doubt import CacheUnknown, Doubt, NeverRun
from mi300bench.schema.record import Scalar


def kfd_cache_bytes(root: Path = Path("/")) -> int | None:
    """Return the last-level cache that the amdgpu driver lists, in bytes; None if it lists none."""
    sizes: list[tuple[int, int]] = []
    for path in root.glob("sys/class/kfd/kfd/topology/nodes/*/caches/*/properties"):
        lines = [line.split() for line in path.read_text().splitlines()]
        table = {words[0]: words[1] for words in lines if len(words) == 2}
        if table.get("level", "").isdigit() and table.get("size", "").isdigit():
            sizes.append((int(table["level"]), int(table["size"]) * 1024))
    last = max((level for level, _ in sizes), default=0)
    # Level 3 is the Infinity Cache. A driver that lists only levels 1 and 2 omits it.
    return max(size for level, size in sizes if level == last) if last >= 3 else None


@final
class TorchGpu(AbstractDevice):
    """One GPU. Work is enqueued and timed by events on the device's stream."""

    def __init__(self, index: int) -> None:
        torch.cuda.set_device(index)
        properties = torch.cuda.get_device_properties(index)
        self.is_rocm = torch.version.hip is not None
        self.arch = (
            properties.gcnArchName if self.is_rocm else f"sm_{properties.major}{properties.minor}"
        )
        self.name = properties.name or self.arch
        self.compute_units = properties.multi_processor_count
        self.memory_bytes = properties.total_memory
        self.facts = facts.find_device(
            self.name,
            arch=self.arch,
            compute_units=self.compute_units,
            memory_bytes=self.memory_bytes,
        )
        if self.facts is not None and not self.facts.is_named_in(self.name):
            # The driver may report a generic name, such as "AMD Radeon Graphics".
            self.name = self.facts.name
        self.cache_bytes = self._cache_bytes(properties)
        self.torch_name = f"cuda:{index}"
        self.fp8 = "float8_e4m3fnuz" if self.arch.startswith("gfx942") else "float8_e4m3fn"
        self.backend = "nccl"
        self.is_asynchronous = True
        self.ever_run = False
        self._flushed: torch.Tensor | None = None

    def _cache_bytes(self, properties: Any) -> int | None:
        if self.is_rocm:
            published = self.facts.facts.get("cache_bytes") if self.facts else None
            return kfd_cache_bytes() or (int(published.value) if published else None)
        return int(properties.L2_cache_size) or None

    def seconds(self, call: Callable[[], None], calls: int) -> float:
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(calls):
            call()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) * 1e-3 / calls

    def flush(self) -> None:
        if self._flushed is None:
            self._flushed = torch.empty(
                self.flush_bytes // 4, dtype=torch.float32, device=self.torch_name
            )
        self._flushed.add_(1.0)

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, first: Any, second: Any) -> float:
        second.synchronize()
        return float(first.elapsed_time(second)) * 1e-3

    def conditions(self) -> dict[str, Scalar]:
        return {
            "framework": "torch",
            "framework_version": torch.__version__,
            "runtime": self._runtime(),
            "blas": str(torch.backends.cuda.preferred_blas_library()),
            "device_arch": self.arch,
            "compute_units": self.compute_units,
            "cache_bytes": self.cache_bytes,
            "partition": self._partition(),
            "python": platform.python_version(),
        }

    def _runtime(self) -> str:
        return f"rocm {torch.version.hip}" if self.is_rocm else f"cuda {torch.version.cuda}"

    def _partition(self) -> str:
        """Return what is known of a GPU that is not a whole chip of the facts; empty if it is."""
        is_known = self.facts is not None or not self.is_rocm
        return "" if is_known else f"{self.compute_units} units of {self.arch}"

    def readings(self) -> dict[str, float]:
        """Return clock, power and temperature, as far as the driver's library reports them."""
        readings: dict[str, float] = {}
        # NVML reports milliwatts, amdsmi watts; torch converts neither.
        for name, read, scale in (
            ("clock_hz", torch.cuda.clock_rate, 1e6),
            ("power_w", torch.cuda.power_draw, 1.0 if self.is_rocm else 1e-3),
            ("temperature_c", torch.cuda.temperature, 1.0),
        ):
            # A missing sensor, as on a partitioned or virtual GPU, must not fail the measurement.
            # Both libraries raise exceptions of their own, which only exist if they are installed.
            with contextlib.suppress(Exception):
                readings[name] = float(read()) * scale
        return readings

    def peak_memory(self, call: Callable[[], None]) -> float:
        """Return the caching allocator's peak in `call`: live tensors only, not the pool."""
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return float(torch.cuda.max_memory_allocated() - before)

    def held_memory(self, call: Callable[[], None]) -> tuple[float, float]:
        """Return the size of the caching allocator's pool before `call`, and its peak."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        before = float(torch.cuda.memory_reserved())
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return before, float(torch.cuda.max_memory_reserved())

    def doubts(self) -> tuple[Doubt, ...]:
        doubts: list[Doubt] = [NeverRun(device=self.name)]
        if self.cache_bytes is None:
            doubts.append(CacheUnknown(assumed_bytes=self.flush_bytes // 2))
        return tuple(doubts)
