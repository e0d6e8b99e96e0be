"""A probe as a whole: what all of its points moved by between two sides, and whether two runs of a machine differ by as much.

What points share is not known the better the more of them there are: a process, or a run, moves all of them together. By how much
is seen in earlier runs, or else in the processes of a run; where a side has one process and no earlier run, nothing tells.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mi300bench.comparison.medians import Medians, Side, families
from mi300bench.comparison.noise import (
    CONFIDENCE,
    LEAST_DEVIATION,
    MAD_EFFICIENCY,
    MAD_TO_DEVIATION,
    MEDIAN_OF_FEW,
    MEDIAN_OF_MANY,
    Estimate,
    deviation_around_median,
    moderated,
    variance_of,
)
from mi300bench.schema.model import Interval
from mi300bench.stats import SMALLEST_EFFECT, Verdict, verdict_of

# Fewer points than this are not a probe as a whole.
FEWEST_OF_FAMILY = 4
# What two runs of a machine are taken to differ by until they show it, and as how many of them that counts: assumed, not measured.
RUNS_ALIKE = Estimate(variance=0.015**2, freedom=4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeShift:
    """A probe as a whole: what the median of its points moved by. Without width where nothing tells how much runs differ."""

    family: str
    ratio: Interval
    verdict: Verdict
    points: int


def probe_shifts(first: Side, second: Side, *, smallest: float = SMALLEST_EFFECT) -> list[ProbeShift]:
    """Return what each probe moved by as a whole, the largest slow-down first."""
    rows = []
    for family, keys in families([key for key in first if key in second], first).items():
        if len(keys) >= FEWEST_OF_FAMILY:
            points = [[side[key] for key in keys] for side in (first, second)]
            rows.append(probe_shift(family, points[0], points[1], smallest=smallest))
    return sorted(rows, key=lambda row: -row.ratio.mid)


def probe_shift(
    family: str, first: Sequence[Medians], second: Sequence[Medians], *, smallest: float
) -> ProbeShift:
    """Return what the points of one probe, the same on both sides, moved by."""
    from scipy.stats import t

    moves = [other.middle - one.middle for one, other in zip(first, second, strict=True)]
    middle, runs = float(np.median(moves)), _runs_differ(first, second)
    own = Estimate(
        variance=max(deviation_around_median(moves), LEAST_DEVIATION) ** 2
        * MEDIAN_OF_MANY
        / len(moves),
        freedom=MAD_EFFICIENCY * (len(moves) - 1),
    )
    reach = 0.0
    if runs.freedom:
        # Of two sources the one that is larger is the one whose uncertainty counts.
        larger = max(own, runs, key=lambda estimate: estimate.variance)
        reach = float(t.ppf((1 + CONFIDENCE) / 2, larger.freedom)) * math.sqrt(
            own.variance + runs.variance
        )
    ratio = Interval(
        low=math.exp(middle - reach), mid=math.exp(middle), high=math.exp(middle + reach)
    )
    return ProbeShift(
        family=family,
        ratio=ratio,
        points=len(moves),
        verdict=verdict_of(ratio, smallest) if reach else Verdict.CANNOT_TELL,
    )


def _runs_differ(first: Sequence[Medians], second: Sequence[Medians]) -> Estimate:
    """Return the variance of what all points together move by between two runs; nothing where nothing tells."""
    steps = [step for side in (first, second) for step in shared_steps(side)]
    if len(steps) >= 3:
        seen = Estimate(
            variance=(MAD_TO_DEVIATION * float(np.median(np.abs(steps)))) ** 2,
            freedom=MAD_EFFICIENCY * len(steps),
        )
        return moderated(seen, RUNS_ALIKE)
    parts = [_processes_differ(side) for side in (first, second)]
    if not all(part.freedom for part in parts):
        return Estimate()
    seen = Estimate(
        variance=sum(part.variance for part in parts), freedom=sum(part.freedom for part in parts)
    )
    return moderated(seen, RUNS_ALIKE)


def shared_steps(side: Sequence[Medians]) -> list[float]:
    """Return what the points of a side moved by together from each of its runs to the next."""
    steps: dict[tuple[str, str], list[float]] = {}
    for point in side:
        for (before, one), (after, other) in pairwise(point.by_run.items()):
            steps.setdefault((before, after), []).append(other - one)
    return [float(np.median(moves)) for moves in steps.values() if len(moves) >= FEWEST_OF_FAMILY]


def _processes_differ(side: Sequence[Medians]) -> Estimate:
    """Return the variance of a side's median by how its processes, each of all points, differ; nothing where it has one."""
    count = min(len(point.seconds) for point in side)
    if count < 2:
        return Estimate()
    logs = np.log(np.array([point.seconds[:count] for point in side]))
    offsets = np.median(logs - np.median(logs, axis=1, keepdims=True), axis=0)
    seen = variance_of([float(offset) for offset in offsets])
    return Estimate(
        variance=seen.variance * (MEDIAN_OF_FEW if count > 2 else 1.0) / count, freedom=seen.freedom
    )
