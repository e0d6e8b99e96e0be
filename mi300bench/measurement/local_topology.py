"""The device of this machine, its ranks and the threads of each, without importing a framework."""

import os
from pathlib import Path

from mi300bench.errors import NodeError, PlanError
from mi300bench.hw import facts
from mi300bench.hw.inventory import memory
from mi300bench.runner.external_launcher import is_joined, launched_ranks
from mi300bench.schema.record import World

KINDS = ("cpu", "cuda", "rocm")
# By default a CPU gets one rank for each core, up to this many.
MOST_CPU_RANKS = 2


def detect_device(root: Path = Path("/")) -> str:
    """Return the device whose driver is loaded: ``rocm``, ``cuda``, or else ``cpu``."""
    if rocm_gpus(root):
        return "rocm"
    return "cuda" if cuda_gpus(root) else "cpu"


def rocm_gpus(root: Path = Path("/")) -> int:
    """Return the number of GPUs that the amdgpu driver lists and the environment leaves visible."""
    count = 0
    for path in root.glob("sys/class/kfd/kfd/topology/nodes/*/properties"):
        try:
            words = [line.split() for line in path.read_text().splitlines()]
        except OSError:  # a GPU that this container may not use
            continue
        count += any(word[0] == "simd_count" and word[1] != "0" for word in words if len(word) == 2)
    return _visible(count, "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def _visible(count: int, *variables: str) -> int:
    """Return how many of `count` GPUs the environment leaves visible."""
    for name in variables:
        if name in os.environ:
            listed = [part.strip() for part in os.environ[name].split(",")]
            count = min(count, sum(part not in ("", "-1") for part in listed))
    return count


def cuda_gpus(root: Path = Path("/")) -> int:
    """Return the number of GPUs that the NVIDIA driver lists and the environment leaves visible."""
    return _visible(len(list(root.glob("proc/driver/nvidia/gpus/*"))), "CUDA_VISIBLE_DEVICES")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def default_ranks(device: str) -> int:
    """Return the default number of ranks: that of the GPUs, or of the cores up to two.

    Under an outside launcher it is the number of ranks that the launcher started.
    """
    if is_joined():
        return launched_ranks()
    gpus = {"rocm": rocm_gpus, "cuda": cuda_gpus}.get(device)
    return max(1, gpus()) if gpus else min(MOST_CPU_RANKS, cores())


def memory_limit(world: World, *, is_absent: bool = False) -> float | None:
    """Return the bytes of memory that a rank may use; None where that is not known.

    On a CPU it is the rank's share of this machine's memory, on a GPU the memory of the GPU.
    `is_absent`: the machine is not this one.
    """
    if world.device == "cpu":
        return None if is_absent else memory()[0] / world.ranks
    device = facts.find_device("MI300X") if world.device == "rocm" else None
    fact = device.facts.get("memory_bytes") if device else None
    return fact.value if fact else None


def local_topology(
    device: str, ranks: int, *, launcher: str = "", threads: int = 0, is_absent: bool = False
) -> World:
    """Return a world of `ranks` on a kind of device.

    On a CPU each rank gets an equal share of the cores as threads, or `threads` if that is given.
    `is_absent`: the machine is not this one, so its GPUs are not counted.
    """
    if device not in KINDS:
        raise PlanError(f"unknown device {device!r}", hint=f"one of {', '.join(KINDS)}")
    if ranks < 1:
        raise PlanError(f"ranks must be at least 1 (got {ranks})", hint="--ranks 1")
    count_gpus = {"rocm": rocm_gpus, "cuda": cuda_gpus}.get(device)
    if count_gpus is not None:
        gpus = ranks if is_absent else count_gpus()
        if ranks > gpus and not is_joined() and not launcher:
            raise NodeError(
                f"{ranks} ranks need {ranks} GPUs, this node has {gpus}",
                hint=f"--ranks {gpus}" if gpus else "--device cpu",
            )
        return World(device=device, ranks=ranks)
    return World(device=device, ranks=ranks, threads=threads or max(1, cores() // ranks))
