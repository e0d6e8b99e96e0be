"""Slowing a process down by a known share: a quota of the kernel's, in a group of our own, its effect measured first.

Needs root and a kernel with the cpu controller (version 1 or 2). What is slowed must outlast the quota's period many times.
"""

import math
import os
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PERIOD_US = 50_000
TRIED = (0.98, 0.94, 0.90)
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


def calibrated(wanted: float, seconds: Callable[[], float], *, rounds: int = 6) -> tuple[float, float]:
    """Return the share of a core at which what `seconds` times takes `wanted` of its time, and the error of that ratio.

    The kernel hands out a quota in slices, so a share of 0.95 is not 5 %. Three shares are tried free, held, held, free, for
    machines drift, and a straight line over 1 / share is drawn through what they give.
    """
    shares = [share for _ in range(rounds) for share in TRIED]
    ratios = []
    for share in shares:
        before = seconds()
        with quota(share):
            held = [seconds(), seconds()]
        ratios.append(statistics.mean(held) / statistics.mean((before, seconds())))
    more = [1 / share - 1 for share in shares]
    slope, start = statistics.linear_regression(more, ratios)
    left = [ratio - start - slope * x for ratio, x in zip(ratios, more, strict=True)]
    error = statistics.stdev(left) / math.sqrt(len(left))
    needed = (wanted - start) / slope if slope > 0 else math.nan
    if error > 0.01 or not 0 < needed < 0.25:
        raise SystemExit(f"no share of a core is seen to make it {wanted:.3f} (error {error:.3f}): is the machine left alone?")
    return 1 / (1 + needed), error
