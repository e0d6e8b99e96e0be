"""Many points of several sides at once: which got slower, which side is the odd one out, and since when.

A side's point is known by the medians of its processes. Three processes tell little of their own scatter, so it is shared among
the points of one probe (a moderated variance, as the analysis of gene expression has it: Smyth 2004). How much all points of a
probe scatter around what most of them moved by bounds what one of them can be said to have moved by. Everything is in logarithms
of seconds; an effect counts where it is over 3 % and outside the interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mi300bench import stats
from mi300bench.schema.model import Interval
from mi300bench.stats import SMALLEST_EFFECT, Verdict

Array = NDArray[np.float64]
# The shared variance counts as much as so many processes' own.
PRIOR_FREEDOM = 4.0
# Of a hundred points that did not change, so many may be called changed (before the effect has to be over 3 % as well).
CONFIDENCE = 0.99
# Below so many points of a probe their common scatter is not taken for the noise.
FEWEST_FOR_SCATTER = 8
MAD_TO_DEVIATION = 1.4826
# By how much the variance of a median of a few is over that of their mean.
MEDIAN_LOSS = 1.35
# Seconds below this differ by the clock alone.
LEAST_DEVIATION = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One point of B against A: ratio of seconds (over 1: B is slower) with its interval, verdict, and the evidence of both."""

    key: str
    family: str
    ratio: Interval
    verdict: Verdict
    first: tuple[str, ...] = ()
    second: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Medians:
    """Medians of the processes of one point on one side, in seconds, and the records they are of."""

    family: str
    seconds: tuple[float, ...]
    evidence: tuple[str, ...]


Side = Mapping[str, Medians]


def shared_variances(sides: Sequence[Side]) -> dict[str, float]:
    """Return the variance of the logarithm of a process median by family, over all points that have two or more processes."""
    sums: dict[str, list[float]] = {}
    for side in sides:
        for point in side.values():
            if len(point.seconds) > 1:
                sums.setdefault(point.family, []).append(float(np.var(np.log(point.seconds), ddof=1)))
    return {family: float(np.median(values)) for family, values in sums.items()}


def _variance(point: Medians, shared: float) -> tuple[float, float]:
    """Return the moderated variance of a process median, and its degrees of freedom."""
    freedom = len(point.seconds) - 1.0
    own = float(np.var(np.log(point.seconds), ddof=1)) if freedom else 0.0
    return (PRIOR_FREEDOM * shared + freedom * own) / (PRIOR_FREEDOM + freedom), PRIOR_FREEDOM + freedom


def _middle(point: Medians) -> float:
    """Return the median over processes: one that was disturbed must not move it."""
    return float(np.median(np.log(point.seconds)))


def compare(first: Side, second: Side, *, smallest: float = SMALLEST_EFFECT) -> list[Compared]:
    """Return every point that both sides have, the largest slow-down first."""
    from scipy.stats import t

    shared = shared_variances([first, second])
    keys = [key for key in first if key in second]
    moved = {key: _middle(second[key]) - _middle(first[key]) for key in keys}
    scatter = _scatter(moved, first)
    rows = []
    for key in keys:
        family = first[key].family
        variance, freedom = 0.0, 0.0
        for point in (first[key], second[key]):
            own, degrees = _variance(point, shared.get(family, LEAST_DEVIATION**2))
            count = len(point.seconds) / (MEDIAN_LOSS if len(point.seconds) > 2 else 1.0)
            variance, freedom = variance + own / count, freedom + degrees
        deviation = max(math.sqrt(variance), scatter.get(family, 0.0), LEAST_DEVIATION)
        reach = float(t.ppf((1 + CONFIDENCE) / 2, freedom)) * deviation
        middle = moved[key]
        ratio = Interval(low=math.exp(middle - reach), mid=math.exp(middle), high=math.exp(middle + reach))
        rows.append(
            Compared(
                key=key,
                family=family,
                ratio=ratio,
                verdict=verdict_of(ratio, smallest),
                first=first[key].evidence,
                second=second[key].evidence,
            )
        )
    return sorted(rows, key=lambda row: -row.ratio.mid)


def verdict_of(ratio: Interval, smallest: float = SMALLEST_EFFECT) -> Verdict:
    """Return what an interval of a ratio of seconds says: a change lies outside it and over the smallest effect."""
    excludes_one = ratio.high < 1 or ratio.low > 1
    if excludes_one and abs(ratio.mid - 1) > smallest:
        return Verdict.FASTER if ratio.mid < 1 else Verdict.SLOWER
    if ratio.low >= 1 - smallest and ratio.high <= 1 + smallest:
        return Verdict.SAME
    return Verdict.CANNOT_TELL


def _scatter(moved: Mapping[str, float], side: Side) -> dict[str, float]:
    """Return by how much the points of each family scatter around what most of them moved by, robustly."""
    families: dict[str, list[float]] = {}
    for key, value in moved.items():
        families.setdefault(side[key].family, []).append(value)
    found = {}
    for family, values in families.items():
        if len(values) >= FEWEST_FOR_SCATTER:
            middle = float(np.median(values))
            found[family] = MAD_TO_DEVIATION * float(np.median(np.abs(np.array(values) - middle)))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """One side among several: the median of its seconds over the others', per family, and how many points are slower."""

    name: str
    family: str
    ratio: Interval
    slower: int
    points: int
    is_odd: bool
    worst: str = ""


def odd_ones(sides: Mapping[str, Side], *, smallest: float = SMALLEST_EFFECT) -> list[Odd]:
    """Return each side by family against the median of all sides, the slowest first; at least three sides.

    A side is odd where its median over a family's points is over the smallest effect and outside what sides differ by, or where
    most of the family's points are slower each by itself.
    """
    names = list(sides)
    keys = [key for key in sides[names[0]] if all(key in side for side in sides.values())]
    families = list(dict.fromkeys(sides[names[0]][key].family for key in keys))
    shared = shared_variances(list(sides.values()))
    rows = []
    for family in families:
        own = [key for key in keys if sides[names[0]][key].family == family]
        table = np.array([[_middle(sides[name][key]) for key in own] for name in names])
        away = table - np.median(table, axis=0)
        counts = np.array([[len(sides[name][key].seconds) for key in own] for name in names])
        noise = np.sqrt(max(shared.get(family, 0.0), LEAST_DEVIATION**2) / counts)
        between = MAD_TO_DEVIATION * np.median(np.abs(away), axis=0)
        each = np.maximum(noise, between)
        middles = np.median(away, axis=1)
        spread = max(MAD_TO_DEVIATION * float(np.median(np.abs(middles - np.median(middles)))), LEAST_DEVIATION)
        for place, name in enumerate(names):
            is_slow = (away[place] > math.log1p(smallest)) & (away[place] > 3 * each[place])
            middle, reach = float(middles[place]), 3 * max(spread, float(np.median(each[place])) / math.sqrt(len(own)))
            is_odd = (middle > math.log1p(smallest) and middle > reach) or int(is_slow.sum()) > len(own) / 2
            rows.append(
                Odd(
                    name=name,
                    family=family,
                    ratio=Interval(low=math.exp(middle - reach), mid=math.exp(middle), high=math.exp(middle + reach)),
                    slower=int(is_slow.sum()),
                    points=len(own),
                    is_odd=is_odd,
                    worst=own[int(np.argmax(away[place]))],
                )
            )
    return sorted(rows, key=lambda row: (not row.is_odd, -row.ratio.mid))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step in a history: before `at` (a place in it) and from there on, as a ratio of seconds with its interval."""

    at: int
    ratio: Interval


def find_step(seconds: Sequence[float], *, smallest: float = SMALLEST_EFFECT) -> Step | None:
    """Return the one step that explains a history best, None where it has none that counts; two values on each side at least.

    Every place is tried; the interval is widened for that (Bonferroni). The scatter is that of successive values within the parts.
    """
    from scipy.stats import t

    values = np.log(np.array(seconds, dtype=float))
    count = len(values)
    if count < 4:
        return None
    best: tuple[float, int, float, float] | None = None
    for at in range(2, count - 1):
        before, after = values[:at], values[at:]
        freedom = count - 2.0
        pooled = (float(((before - before.mean()) ** 2).sum()) + float(((after - after.mean()) ** 2).sum())) / freedom
        deviation = math.sqrt(max(pooled, LEAST_DEVIATION**2) * (1 / len(before) + 1 / len(after)))
        middle = float(after.mean() - before.mean())
        if best is None or abs(middle) / deviation > best[0]:
            best = abs(middle) / deviation, at, middle, deviation
    assert best is not None
    _, at, middle, deviation = best
    tries = count - 3
    reach = float(t.ppf(1 - (1 - CONFIDENCE) / 2 / tries, count - 2)) * deviation
    ratio = Interval(low=math.exp(middle - reach), mid=math.exp(middle), high=math.exp(middle + reach))
    return Step(at=at, ratio=ratio) if verdict_of(ratio, smallest) in (Verdict.FASTER, Verdict.SLOWER) else None


def history(runs: Sequence[Side]) -> list[float]:
    """Return one figure a run: over the points that all runs have, the median of its seconds over the point's median."""
    keys = [key for key in runs[0] if all(key in run for run in runs)] if runs else []
    if not keys:
        return []
    table = np.array([[_middle(run[key]) for key in keys] for run in runs])
    return [float(v) for v in np.exp(np.median(table - np.median(table, axis=0), axis=1))]


def straggler(rank_samples: Sequence[Sequence[float]], *, smallest: float = SMALLEST_EFFECT) -> tuple[int, Interval] | None:
    """Return the rank that is slower than the others' median by a relevant amount, and by how much; None where none is."""
    if len(rank_samples) < 3 or any(len(samples) < 3 for samples in rank_samples):
        return None
    middles = np.array([math.log(stats.typical(samples)) for samples in rank_samples])
    away = middles - np.median(middles)
    spread = max(MAD_TO_DEVIATION * float(np.median(np.abs(away))), LEAST_DEVIATION)
    place = int(np.argmax(away))
    middle, reach = float(away[place]), 3 * spread
    ratio = Interval(low=math.exp(middle - reach), mid=math.exp(middle), high=math.exp(middle + reach))
    return (place, ratio) if verdict_of(ratio, smallest) is Verdict.SLOWER else None
