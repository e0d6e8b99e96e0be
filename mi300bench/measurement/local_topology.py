"""Which device to use, how many ranks and how many threads each, without importing a framework."""

import os
from pathlib import Path

from mi300bench.errors import NodeError, PlanError
from mi300bench.hw import facts
from mi300bench.hw.inventory import memory
from mi300bench.runner.external_launcher import is_joined, launched_ranks
from mi300bench.schema.record import World

KINDS = ("cpu", "cuda", "rocm")
# On a CPU the default world has as many ranks as cores, up to this many.
MOST_CPU_RANKS = 2


def detect_device(root: Path = Path("/")) -> str:
    """Return the accelerator whose driver is loaded: ``rocm``, ``cuda``, or ``cpu`` where there is none."""
    if rocm_gpus(root):
        return "rocm"
    return "cuda" if cuda_gpus(root) else "cpu"


def rocm_gpus(root: Path = Path("/")) -> int:
    """Return how many GPUs the amdgpu driver lists."""
    count = 0
    for path in root.glob("sys/class/kfd/kfd/topology/nodes/*/properties"):
        try:
            words = [line.split() for line in path.read_text().splitlines()]
        except OSError:  # a GPU that this container was not given
            continue
        count += any(word[0] == "simd_count" and word[1] != "0" for word in words if len(word) == 2)
    return _visible(count, "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def _visible(count: int, *variables: str) -> int:
    """Return how many of `count` GPUs the environment leaves visible."""
    for name in variables:
        if name in os.environ:
            count = min(
                count,
                len(
                    [part for part in os.environ[name].split(",") if part.strip() not in ("", "-1")]
                ),
            )
    return count


def cuda_gpus(root: Path = Path("/")) -> int:
    """Return how many GPUs the NVIDIA driver lists."""
    return _visible(len(list(root.glob("proc/driver/nvidia/gpus/*"))), "CUDA_VISIBLE_DEVICES")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def default_ranks(device: str) -> int:
    """Return the ranks of the default world: the GPUs, or the cores up to two; the launcher's where it made a group."""
    if is_joined():
        return launched_ranks()
    gpus = {"rocm": rocm_gpus, "cuda": cuda_gpus}.get(device)
    return max(1, gpus()) if gpus else min(MOST_CPU_RANKS, cores())


def memory_limit(world: World, *, is_absent: bool = False) -> float | None:
    """Return the bytes that a rank may hold: its share of this machine's memory, or its GPU's; None where that is not known."""
    if world.device == "cpu":
        return None if is_absent else memory()[0] / world.ranks
    found = facts.find_device("MI300X") if world.device == "rocm" else None
    fact = found.facts.get("memory_bytes") if found else None
    return fact.value if fact else None


def local_topology(
    device: str, ranks: int, *, launcher: str = "", threads: int = 0, is_absent: bool = False
) -> World:
    """Return a world of `ranks`; on a CPU the cores are shared out between them, unless `threads` says otherwise.

    `is_absent`: a machine that is not this one, of which nothing is checked.
    """
    if device not in KINDS:
        raise PlanError(f"unknown device {device!r}", hint=f"one of {', '.join(KINDS)}")
    if ranks < 1:
        raise PlanError(f"{ranks} ranks cannot measure anything", hint="give at least 1")
    gpus = {"rocm": rocm_gpus, "cuda": cuda_gpus}.get(device)
    if gpus is not None:
        found = ranks if is_absent else gpus()
        if ranks > found and not is_joined() and not launcher:
            raise NodeError(
                f"{ranks} ranks need as many GPUs, this node has {found}",
                hint=f"--ranks {found or 1}",
            )
        return World(device=device, ranks=ranks)
    return World(device=device, ranks=ranks, threads=threads or max(1, cores() // ranks))
