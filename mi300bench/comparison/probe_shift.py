"""A probe as a whole: the common move of its points between two sides, and whether it is noise.

A process, or a run, moves all points of a probe together, so more points do not make the common
move more certain. Its variance comes from earlier runs, or else from the processes of a run. Where
a side has one process and no earlier run, the variance is unknown and there is no verdict.
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

# A probe with fewer points is not judged as a whole.
FEWEST_OF_FAMILY = 4
# Assumed, not measured: two runs of a machine differ by 1.5 %, which counts like four degrees of
# freedom.
RUNS_ALIKE = Estimate(variance=0.015**2, freedom=4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeShift:
    """The median move of a probe's points, as a ratio of seconds.

    The interval has no width where it is unknown how much runs differ.
    """

    family: str
    ratio: Interval
    verdict: Verdict
    points: int


def probe_shifts(
    first: Side, second: Side, *, smallest: float = SMALLEST_EFFECT
) -> list[ProbeShift]:
    """Return the shift of each probe, the largest slow-down first."""
    rows = []
    for family, keys in families([key for key in first if key in second], first).items():
        if len(keys) >= FEWEST_OF_FAMILY:
            points = [[side[key] for key in keys] for side in (first, second)]
            rows.append(probe_shift(family, points[0], points[1], smallest=smallest))
    return sorted(rows, key=lambda row: -row.ratio.mid)


def probe_shift(
    family: str, first: Sequence[Medians], second: Sequence[Medians], *, smallest: float
) -> ProbeShift:
    """Return the shift of one probe, given the same points on both sides."""
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
        # The larger of the two variances dominates, so its degrees of freedom are used.
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
    """Return the variance of the common move between two runs; no degrees of freedom if unknown."""
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
    """Return the median move of a side's points from each run to the next."""
    steps: dict[tuple[str, str], list[float]] = {}
    for point in side:
        for (before, one), (after, other) in pairwise(point.by_run.items()):
            steps.setdefault((before, after), []).append(other - one)
    return [float(np.median(moves)) for moves in steps.values() if len(moves) >= FEWEST_OF_FAMILY]


def _processes_differ(side: Sequence[Medians]) -> Estimate:
    """Return the variance of a side's median from the differences between its processes.

    Each process has all points. With one process there are no degrees of freedom.
    """
    count = min(len(point.seconds) for point in side)
    if count < 2:
        return Estimate()
    logs = np.log(np.array([point.seconds[:count] for point in side]))
    offsets = np.median(logs - np.median(logs, axis=1, keepdims=True), axis=0)
    seen = variance_of([float(offset) for offset in offsets])
    return Estimate(
        variance=seen.variance * (MEDIAN_OF_FEW if count > 2 else 1.0) / count, freedom=seen.freedom
    )
