"""Slowing a process down by a known share, with a quota of the kernel's.

It is set on a group of our own, and its effect is measured first.

Needs root and a kernel with the cpu controller (version 1 or 2). What is slowed must outlast the
quota's period many times.
"""

import contextlib
import math
import os
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PERIOD_US = 50_000
TRIED = (0.98, 0.94, 0.90)
VERSION_1, VERSION_2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


class Group:
    """A group of processes of which each may have a share of a core, as long as one is set."""

    def __init__(self, folder: Path, *, is_version_1: bool) -> None:
        self.folder, self.is_version_1 = folder, is_version_1

    def add(self, process: int) -> None:
        """Put a process into the group; what it starts from then on is in it too."""
        (self.folder / "cgroup.procs").write_text(str(process))

    def hold(self, share: float | None) -> None:
        """Let the group have a share of a core from now on; None lets it go."""
        allowed = None if share is None else round(share * PERIOD_US)
        if self.is_version_1:
            (self.folder / "cpu.cfs_quota_us").write_text(str(-1 if allowed is None else allowed))
        else:
            (self.folder / "cpu.max").write_text(
                f"{'max' if allowed is None else allowed} {PERIOD_US}"
            )


@contextmanager
def group() -> Iterator[Group]:
    """Make a group, empty and not held yet; undone at the end."""
    is_version_1 = (VERSION_1 / "cgroup.procs").exists()
    root = VERSION_1 if is_version_1 else VERSION_2
    folder = root / f"mi300bench-{os.getpid()}"
    folder.mkdir()
    try:
        if is_version_1:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        yield Group(folder, is_version_1=is_version_1)
    finally:
        for process in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (root / "cgroup.procs").write_text(process)
        folder.rmdir()


@contextmanager
def quota(share: float) -> Iterator[None]:
    """Let this process and what it starts have a share of a core; undone at the end."""
    with group() as own:
        own.add(os.getpid())
        own.hold(share)
        yield


def calibrated(
    wanted: float, seconds: Callable[[], float], *, rounds: int = 6
) -> tuple[float, float]:
    """Return the share of a core at which a call takes `wanted` of its time, and the error of it.

    `seconds` times the call.

    The kernel hands out a quota in slices, so a share of 0.95 is not 5 %. Three shares are tried
    free, held, held, free, for machines drift, and a straight line over 1 / share is drawn through
    what they give.
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
        raise SystemExit(
            f"no share of a core is seen to make it {wanted:.3f} (error {error:.3f}): "
            "is the machine left alone?"
        )
    return 1 / (1 + needed), error
