"""The runs of a side in time: whether there is a step or a drift, and since when.

A few runs give a poor estimate of how much runs differ. Where there are histories of other sides,
that estimate is moderated with theirs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mi300bench.comparison.medians import Side
from mi300bench.comparison.noise import (
    CONFIDENCE,
    LEAST_DEVIATION,
    MAD_EFFICIENCY,
    MAD_TO_DEVIATION,
    Estimate,
    moderated,
)
from mi300bench.schema.model import Interval
from mi300bench.stats import SMALLEST_EFFECT, Verdict, verdict_of

# A point counts in a history where at least this share of the runs have it.
MOST_RUNS = 0.75
# A step needs two runs on each side.
FEWEST_RUNS = 4
UNKNOWN = Estimate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change in a history, as a ratio of seconds.

    A step lies before the run with index `at`; a drift leads from the first run to the last.
    """

    at: int
    ratio: Interval
    is_drift: bool = False


def noise_between(seconds: Sequence[float]) -> Estimate:
    """Return the variance of a history's figures, from the differences of neighbours.

    A step moves only one of the differences, and their median hardly at all.
    """
    steps = np.abs(np.diff(np.log(np.array(seconds, dtype=float))))
    if len(steps) < FEWEST_RUNS - 1:
        return Estimate()
    return Estimate(
        variance=(MAD_TO_DEVIATION * float(np.median(steps))) ** 2 / 2,
        freedom=MAD_EFFICIENCY * len(steps),
    )


def find_change(
    seconds: Sequence[float], *, common: Estimate = UNKNOWN, smallest: float = SMALLEST_EFFECT
) -> Change | None:
    """Return the step or the drift that explains a history best; None where it is not significant.

    A step is tried at every place with two figures on each side; its interval is widened for the
    number of places (Bonferroni). Where a straight line leaves a smaller sum of squares than the
    best step, the change is a drift. `common` is the variance of other histories of the same kind.
    """
    values = np.log(np.array(seconds, dtype=float))
    count = len(values)
    if count < FEWEST_RUNS:
        return None
    least = LEAST_DEVIATION**2 * (count - 2)
    steps = []
    for at in range(2, count - 1):
        before, after = values[:at], values[at:]
        left = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
        steps.append(
            (
                max(left, least),
                at,
                float(after.mean() - before.mean()),
                1 / len(before) + 1 / len(after),
            )
        )
    unexplained, at, move, weight = min(steps)
    places = np.arange(count) - (count - 1) / 2
    slope = float((places * values).sum() / (places**2).sum())
    along = max(float(((values - values.mean() - slope * places) ** 2).sum()), least)
    is_drift = along < unexplained
    if is_drift:
        unexplained, at, move, weight = (
            along,
            0,
            slope * (count - 1),
            (count - 1) ** 2 / float((places**2).sum()),
        )
    noise = moderated(Estimate(variance=unexplained / (count - 2), freedom=count - 2), common)
    reach = _quantile(noise.freedom, 1 if is_drift else count - 3) * math.sqrt(
        noise.variance * weight
    )
    ratio = Interval(low=math.exp(move - reach), mid=math.exp(move), high=math.exp(move + reach))
    is_change = verdict_of(ratio, smallest) in (Verdict.FASTER, Verdict.SLOWER)
    return Change(at=at, ratio=ratio, is_drift=is_drift) if is_change else None


def _quantile(freedom: float, tries: int) -> float:
    from scipy.stats import t

    return float(t.ppf(1 - (1 - CONFIDENCE) / 2 / tries, freedom))


def histories(runs: Sequence[Side]) -> dict[str, tuple[tuple[int, ...], tuple[float, ...]]]:
    """Return for each family the indices of the runs that have it, and one figure for each run.

    The figure is the median, over the points that most of those runs have, of the point's seconds
    over its own median.
    """
    by_family = {}
    for family in dict.fromkeys(point.family for run in runs for point in run.values()):
        places = [
            place
            for place, run in enumerate(runs)
            if any(point.family == family for point in run.values())
        ]
        counts: dict[str, int] = {}
        for place in places:
            for key, point in runs[place].items():
                if point.family == family:
                    counts[key] = counts.get(key, 0) + 1
        keys = [key for key, count in counts.items() if count >= MOST_RUNS * len(places)]
        places = [place for place in places if any(key in runs[place] for key in keys)]
        if not keys:
            continue
        table = np.array(
            [[runs[p][key].middle if key in runs[p] else math.nan for key in keys] for p in places]
        )
        figures = np.exp(np.nanmedian(table - np.nanmedian(table, axis=0), axis=1))
        by_family[family] = tuple(places), tuple(float(figure) for figure in figures)
    return by_family
