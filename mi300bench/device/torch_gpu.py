"""CUDA and ROCm under torch: one code path, since torch's ROCm build answers to ``torch.cuda``."""

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
    """Return the largest last-level cache that the amdgpu driver lists, in bytes; None where it lists none."""
    sizes: list[tuple[int, int]] = []
    for path in root.glob("sys/class/kfd/kfd/topology/nodes/*/caches/*/properties"):
        lines = [line.split() for line in path.read_text().splitlines()]
        table = {words[0]: words[1] for words in lines if len(words) == 2}
        if table.get("level", "").isdigit() and table.get("size", "").isdigit():
            sizes.append((int(table["level"]), int(table["size"]) * 1024))
    last = max((level for level, _ in sizes), default=0)
    # Level 3 is the Infinity Cache; a driver that stops at level 2 does not tell the last level.
    return max(size for level, size in sizes if level == last) if last >= 3 else None


@final
class TorchGpu(AbstractDevice):
    """One GPU. Work is enqueued ahead and timed by events on the device's own stream."""

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
            self.name = (
                self.facts.name
            )  # "AMD Radeon Graphics" names no product; what it is was found by its figures
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
            "runtime": f"rocm {torch.version.hip}"
            if self.is_rocm
            else f"cuda {torch.version.cuda}",
            "blas": str(torch.backends.cuda.preferred_blas_library()),
            "device_arch": self.arch,
            "compute_units": self.compute_units,
            "cache_bytes": self.cache_bytes,
            "partition": ""
            if self.facts or not self.is_rocm
            else f"{self.compute_units} units of {self.arch}",
            "python": platform.python_version(),
        }

    def readings(self) -> dict[str, float]:
        """Return clock, power and temperature as the driver's library tells them, or what of them it tells."""
        found: dict[str, float] = {}
        # NVML tells milliwatts, amdsmi watts; torch passes both on as they are.
        for name, read, scale in (
            ("clock_hz", torch.cuda.clock_rate, 1e6),
            ("power_w", torch.cuda.power_draw, 1.0 if self.is_rocm else 1e-3),
            ("temperature_c", torch.cuda.temperature, 1.0),
        ):
            # The two libraries raise types of their own, which are there only where the library is; a sensor that a
            # partitioned or virtual GPU lacks must not cost a measurement.
            with contextlib.suppress(Exception):
                found[name] = float(read()) * scale
        return found

    def peak_memory(self, call: Callable[[], None]) -> float:
        """Return the caching allocator's peak during `call`, live tensors only, not the pool."""
        torch.cuda.synchronize()
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return float(torch.cuda.max_memory_allocated() - held)

    def held_memory(self, call: Callable[[], None]) -> tuple[float, float]:
        """Return the caching allocator's pool before `call` and at its largest."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        before = float(torch.cuda.memory_reserved())
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return before, float(torch.cuda.max_memory_reserved())

    def doubts(self) -> tuple[Doubt, ...]:
        found: list[Doubt] = [NeverRun(device=self.name)]
        if self.cache_bytes is None:
            found.append(CacheUnknown(assumed_bytes=self.flush_bytes // 2))
        return tuple(found)
