"""Slowing a process down by a known share: a quota of the kernel's, in a group of our own, its effect measured first.

Needs root and a kernel with the cpu controller (version 1 or 2). What is slowed must outlast the quota's period many times.
"""

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PERIOD_US = 50_000
VERSION_1, VERSION_2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


@contextmanager
def quota(share: float) -> Iterator[None]:
    """Let this process and what it starts have a share of a core; undone at the end."""
    allowed = round(share * PERIOD_US)
    root = VERSION_1 if (VERSION_1 / "cgroup.procs").exists() else VERSION_2
    group = root / f"mi300bench-{os.getpid()}"
    group.mkdir()
    try:
        if root == VERSION_1:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(allowed))
        else:
            (group / "cpu.max").write_text(f"{allowed} {PERIOD_US}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def loop_seconds() -> float:
    """Return the median seconds of a loop that computes in one thread and nothing else."""
    seconds = []
    for _ in range(15):
        begin = time.perf_counter()
        sum(range(10_000_000))
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def calibrated(wanted: float) -> tuple[float, float]:
    """Return the share of a core at which a loop takes nearest to `wanted` of its time, and what it takes there.

    The kernel hands out a quota in slices, so a share of 0.95 is not 5 %.
    """
    found = []
    for share in (0.97, 0.96, 0.95, 0.94, 0.93, 0.92, 0.91, 0.90):
        before = loop_seconds()
        with quota(share):
            during = loop_seconds()
        found.append((abs(during / before - wanted), share, during / before))
    off, share, slower = min(found)
    if off > 0.02:
        raise SystemExit(f"no quota comes nearer to {wanted} of a loop's time than {slower:.3f}: is the machine left alone?")
    return share, slower
