"""Two sides, point by point: which points got slower, by how much, and how certain that is.

A point's value is the median of its processes, as a logarithm of seconds. Two runs of one machine
differ by more than the processes of one run do. That variance comes from earlier runs of either
side, or else from the scatter of a probe's points around their median move.

Drift common to all points of a probe is subtracted from each of them, unless the probe as a whole
has changed. Scatter cannot separate noise from changes of many sizes, so each probe is judged as a
whole as well (`comparison.probe_shift`). A point is called changed where the change exceeds 3 %;
among all points that are called changed, one in twenty may be a false alarm (Benjamini and Hochberg
1995).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from mi300bench.comparison.medians import Medians, Side, families
from mi300bench.comparison.noise import (
    CONFIDENCE,
    FEWEST_FOR_SCATTER,
    LEAST_DEVIATION,
    MAD_EFFICIENCY,
    MAD_TO_DEVIATION,
    MEDIAN_OF_FEW,
    Estimate,
    deviation_around_median,
    moderated,
    shared,
    variance_of,
)
from mi300bench.comparison.probe_shift import probe_shift
from mi300bench.schema.model import Interval
from mi300bench.stats import SMALLEST_EFFECT, Verdict, verdict_of

# The expected share of false alarms among all points that are called changed.
FALSE_SHARE = 0.05
CHANGED = (Verdict.FASTER, Verdict.SLOWER)
# The variance between processes is an estimate of that between runs, with this many degrees of
# freedom. From simulation: runs differ by up to six times what processes do, and a change of 5 % in
# one of eight quiet points must still be detected (tests/comparison/test_points.py).
PROCESS_FREEDOM = 1.5
# With one process a point has no variance of its own, and the scatter of a probe's points has more
# outliers than normal values have: at most this many degrees of freedom.
ONE_PROCESS_FREEDOM = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One point of B against A: ratio of seconds (over 1: B is slower), verdict, evidence of both.

    `shared` is the drift common to all points of the probe, which was subtracted, as a ratio. An
    interval without width means that the variance of the point is unknown.
    """

    key: str
    label: str
    family: str
    ratio: Interval
    verdict: Verdict
    shared: float = 1.0
    first: tuple[str, ...] = ()
    second: tuple[str, ...] = ()


def compare(first: Side, second: Side, *, smallest: float = SMALLEST_EFFECT) -> list[Compared]:
    """Return the comparison of every point that both sides have, the largest slow-down first."""
    from scipy.stats import false_discovery_control, t

    rows: list[Compared] = []
    chances: list[float] = []
    for family, keys in families([key for key in first if key in second], first).items():
        moves = {key: second[key].middle - first[key].middle for key in keys}
        points = [[side[key] for key in keys] for side in (first, second)]
        between = _between_runs(points) or _scatter(list(moves.values()))
        if any(len(point.seconds) < 2 for side in points for point in side):
            between = replace(between, freedom=min(between.freedom, ONE_PROCESS_FREEDOM))
        drift = _drift(family, points[0], points[1], smallest)
        common = shared([variance_of(side[key].logs) for side in (first, second) for key in keys])
        for key in keys:
            one, other, move = first[key], second[key], moves[key] - drift
            error = _error(one, other, common, between)
            reach = (
                float(t.ppf((1 + CONFIDENCE) / 2, error.freedom)) * math.sqrt(error.variance)
                if error.freedom
                else 0.0
            )
            chance = (
                2 * float(t.sf(abs(move) / math.sqrt(error.variance), error.freedom))
                if error.freedom
                else 1.0
            )
            ratio = Interval(
                low=math.exp(move - reach), mid=math.exp(move), high=math.exp(move + reach)
            )
            verdict = verdict_of(ratio, smallest) if error.freedom else Verdict.CANNOT_TELL
            rows.append(
                Compared(
                    key=key,
                    label=other.label,
                    family=family,
                    ratio=ratio,
                    verdict=verdict,
                    shared=math.exp(drift),
                    first=one.evidence,
                    second=other.evidence,
                )
            )
            chances.append(chance)
    if not rows:
        return []
    corrected = false_discovery_control(chances)
    rows = [
        replace(row, verdict=Verdict.CANNOT_TELL)
        if row.verdict in CHANGED and chance > FALSE_SHARE
        else row
        for row, chance in zip(rows, corrected, strict=True)
    ]
    return sorted(rows, key=lambda row: -row.ratio.mid)


def _error(one: Medians, other: Medians, common: Estimate, between: Estimate) -> Estimate:
    """Return the variance of a point's move: between processes, or between runs if larger."""
    processes = Estimate()
    parts = [
        moderated(variance_of([math.log(s) for s in point.seconds]), common)
        for point in (one, other)
    ]
    if all(part.freedom for part in parts):
        counts = [
            len(point.seconds) / (MEDIAN_OF_FEW if len(point.seconds) > 2 else 1.0)
            for point in (one, other)
        ]
        variance = sum(part.variance / count for part, count in zip(parts, counts, strict=True))
        processes = Estimate(variance=variance, freedom=sum(part.freedom for part in parts))
    if between.freedom and processes.freedom:
        freedom = min(processes.freedom, PROCESS_FREEDOM)
        between_runs = moderated(between, replace(processes, freedom=freedom))
        error = between_runs if between_runs.variance > processes.variance else processes
    else:
        error = between if between.freedom else processes
    return replace(error, variance=max(error.variance, LEAST_DEVIATION**2))


def _drift(
    family: str, first: Sequence[Medians], second: Sequence[Medians], smallest: float
) -> float:
    """Return the common move of a probe's points; 0 where the probe changed or has few points."""
    if len(first) < FEWEST_FOR_SCATTER:
        return 0.0
    together = probe_shift(family, first, second, smallest=smallest)
    return 0.0 if together.verdict in CHANGED else math.log(together.ratio.mid)


def _between_runs(sides: Sequence[Sequence[Medians]]) -> Estimate | None:
    """Return the variance of a point's own move between two runs of a machine, from earlier runs.

    None where there are too few.
    """
    differences: list[float] = []
    for side in sides:
        steps: dict[tuple[str, str], list[float]] = {}
        for point in side:
            for (before, one), (after, other) in pairwise(point.by_run.items()):
                steps.setdefault((before, after), []).append(other - one)
        for moves in steps.values():
            drift = float(np.median(moves)) if len(moves) >= FEWEST_FOR_SCATTER else 0.0
            differences += [abs(move - drift) for move in moves]
    if len(differences) < FEWEST_FOR_SCATTER:
        return None
    return Estimate(
        variance=(MAD_TO_DEVIATION * float(np.median(differences))) ** 2,
        freedom=MAD_EFFICIENCY * len(differences),
    )


def _scatter(moves: Sequence[float]) -> Estimate:
    """Return the variance of a move from the scatter of moves around their median.

    It has no degrees of freedom where there are few moves.
    """
    if len(moves) < FEWEST_FOR_SCATTER:
        return Estimate()
    return Estimate(
        variance=deviation_around_median(moves) ** 2, freedom=MAD_EFFICIENCY * (len(moves) - 1)
    )
