"""The node and its doubts, read from sysfs, procfs and amd-smi without loading a framework.

Functions that read files take the root of the file system, so that tests can pass a recorded tree.
"""

import contextlib
import json
import os
import platform
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mi300bench.schema.doubt import (
    Doubt,
    ForeignLoad,
    Governor,
    LittleMemory,
    NumaBalancing,
    PartitionMode,
)
from mi300bench.units import GIB

# A run of the small presets may fail with less free memory.
ADVISED_FREE_BYTES = 8 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """One node as the kernel describes it. None or empty: the kernel does not report it."""

    node: str
    system: str
    cpu: str
    cores: int
    cache_bytes: int | None
    memory_bytes: int
    memory_free_bytes: int
    numa_nodes: int
    numa_balancing: bool | None
    governor: str
    busy_cores: float
    nics: tuple[str, ...]
    gpus: tuple[Mapping[str, Any], ...]
    doubts: tuple[Doubt, ...]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def cpu_cache_bytes(root: Path = Path("/")) -> int | None:
    """Return the bytes of all last-level caches; None if the kernel does not report them."""
    sizes: dict[tuple[int, str], int] = {}
    for index in root.glob("sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
        level, size, shared = (_text(index / name) for name in ("level", "size", "shared_cpu_list"))
        if level.isdigit() and size.endswith("K") and size[:-1].isdigit():
            sizes[int(level), shared] = int(size[:-1]) * 1024
    if not sizes:
        return None
    last = max(level for level, _ in sizes)
    return sum(size for (level, _), size in sizes.items() if level == last)


def memory(root: Path = Path("/")) -> tuple[int, int]:
    """Return total and available bytes, within the limit of the control group, if any."""
    table = dict(
        line.split(":", 1) for line in _text(root / "proc/meminfo").splitlines() if ":" in line
    )
    total, free = (
        int(table.get(key, "0 kB").split()[0]) * 1024 for key in ("MemTotal", "MemAvailable")
    )
    limit, used = (
        _text(root / "sys/fs/cgroup" / name) for name in ("memory.max", "memory.current")
    )
    if limit.isdigit():
        total = min(total, int(limit))
        free = min(free, int(limit) - int(used or 0))
    return total, free


def process_memory(name: str, root: Path = Path("/")) -> float:
    """Return the bytes of ``VmRSS`` (resident now) or ``VmHWM`` (its peak); 0 if unknown."""
    table = dict(
        line.split(":", 1) for line in _text(root / "proc/self/status").splitlines() if ":" in line
    )
    return float(table.get(name, "0 kB").split()[0]) * 1024


def resident_around(call: Callable[[], object]) -> tuple[float, float]:
    """Return the bytes of this process's resident set before `call`, and the peak until its end."""
    # Reset the peak. Some containers forbid this; then it is the peak since the process started.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before = process_memory("VmRSS")
    call()
    return before, process_memory("VmHWM")


def busy_cores(root: Path = Path("/"), seconds: float = 0.25) -> float:
    """Return how many cores were busy over `seconds`; waiting for a disk does not count."""

    def ticks() -> tuple[int, int]:
        fields = [int(word) for word in _text(root / "proc/stat").split("\n", 1)[0].split()[1:9]]
        return (sum(fields), fields[3] + fields[4]) if fields else (0, 0)

    total_before, idle_before = ticks()
    time.sleep(seconds)
    total_after, idle_after = ticks()
    elapsed = total_after - total_before
    return (1 - (idle_after - idle_before) / elapsed) * (os.cpu_count() or 1) if elapsed else 0.0


def cpu_name(root: Path = Path("/")) -> str:
    """Return the name of the CPU as the kernel reports it."""
    for line in _text(root / "proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _nics(root: Path) -> tuple[str, ...]:
    """Return the physical network interfaces with their speed, and RDMA devices with their rate."""
    nics = []
    for path in sorted((root / "sys/class/net").glob("*")):
        if (path / "device").exists():
            speed = _text(path / "speed")
            nics.append(f"{path.name} {speed} Mb/s" if speed.isdigit() else path.name)
    for path in sorted((root / "sys/class/infiniband").glob("*/ports/*/rate")):
        nics.append(f"{path.parts[-4]} {_text(path)}")
    return tuple(nics)


def _amd_smi(arguments: Sequence[str]) -> Any:
    """Return the parsed JSON of ``amd-smi``; None if it is not installed or prints no JSON."""
    program = shutil.which("amd-smi")
    if program is None:
        return None
    try:
        answer = subprocess.run(
            [program, *arguments, "--json"], capture_output=True, timeout=30, check=False, text=True
        )
        return json.loads(answer.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None


def read_amd_smi(static: Any) -> tuple[Mapping[str, Any], ...]:
    """Return a mapping per GPU from the JSON of ``amd-smi static``: name, partitions, power cap.

    Written from the documentation of amd-smi; we have not run it on a machine with amd-smi yet.
    """
    entries = static.get("gpu_data", []) if isinstance(static, dict) else static
    gpus = []
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict):
            continue
        asic, partition, limit = (_section(entry, key) for key in ("asic", "partition", "limit"))
        gpus.append(
            {
                "gpu": entry.get("gpu"),
                "name": asic.get("market_name", ""),
                "arch": asic.get("target_graphics_version", ""),
                "compute_partition": partition.get("compute_partition")
                or partition.get("accelerator_partition")
                or "",
                "memory_partition": partition.get("memory_partition", ""),
                "power_cap": limit.get("max_power") or limit.get("socket_power_limit") or "",
            }
        )
    return tuple(gpus)


def _section(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a section without unknown values: amd-smi prints N/A for a value or for a section."""
    section = entry.get(key)
    if not isinstance(section, dict):
        return {}
    return {name: value for name, value in section.items() if value != "N/A"}


def take_inventory(*, node: str = "", root: Path = Path("/")) -> Inventory:
    """Return the inventory of this node, with its doubts."""
    total, free = memory(root)
    balancing = _text(root / "proc/sys/kernel/numa_balancing")
    governor = _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    busy = busy_cores(root)
    gpus = read_amd_smi(_amd_smi(["static"]))
    cores = len(os.sched_getaffinity(0)) if root == Path("/") else os.cpu_count() or 1
    return Inventory(
        node=node or socket.gethostname(),
        system=f"{platform.system()} {platform.release()}",
        cpu=cpu_name(root),
        cores=cores,
        cache_bytes=cpu_cache_bytes(root),
        memory_bytes=total,
        memory_free_bytes=free,
        numa_nodes=len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or 1,
        numa_balancing=balancing not in ("", "0") if balancing else None,
        governor=governor,
        busy_cores=busy,
        nics=_nics(root),
        gpus=gpus,
        doubts=_doubts(balancing, governor, busy, cores, free, gpus),
    )


def _doubts(
    balancing: str,
    governor: str,
    busy: float,
    cores: int,
    free: int,
    gpus: Sequence[Mapping[str, Any]],
) -> tuple[Doubt, ...]:
    doubts: list[Doubt] = []
    if balancing not in ("", "0"):
        doubts.append(NumaBalancing())
    if governor not in ("", "performance"):
        doubts.append(Governor(governor=governor))
    if busy > 0.25 * cores:
        doubts.append(ForeignLoad(busy_cores=round(busy, 2), cores=cores))
    if free < ADVISED_FREE_BYTES:
        doubts.append(LittleMemory(free_bytes=free, wanted_bytes=ADVISED_FREE_BYTES))
    modes = {(str(gpu["compute_partition"]), str(gpu["memory_partition"])) for gpu in gpus}
    doubts += [
        PartitionMode(compute=compute, memory=memory_mode)
        for compute, memory_mode in sorted(modes)
        if (compute and compute != "SPX") or (memory_mode and memory_mode != "NPS1")
    ]
    return tuple(doubts)
