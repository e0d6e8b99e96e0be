"""Two sides, many points: which got slower, by how much, how sure.

A point is the median of its processes, in logarithms of seconds. Two runs of a machine differ by more than the processes of one do:
by how much is seen in earlier runs of either side, or else in how the points of a probe scatter around what most of them moved by.
What all points of a probe share, where that is too small to count, is a drift of the machine and not a point's: it is taken off.
Scatter cannot tell noise from changes of many sizes, so each probe is judged as a whole as well, by the median of its points.
Of what is called changed, one in twenty may be a false alarm (Benjamini and Hochberg 1995), and it is over 3 %.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from mi300bench.fit.noise import (
    FEWEST_FOR_SCATTER,
    LEAST_DEVIATION,
    MAD_EFFICIENCY,
    MAD_TO_DEVIATION,
    Estimate,
    deviation_around_median,
    moderated,
    shared,
    variance_of,
)
from mi300bench.schema.model import Interval
from mi300bench.stats import SMALLEST_EFFECT, Verdict, verdict_of

# Intervals, and the share of false ones among all that are called changed.
CONFIDENCE, FALSE_SHARE = 0.99, 0.05
# By how much the variance of a median is over that of a mean: of three or more normal values, and of very many.
MEDIAN_OF_FEW, MEDIAN_OF_MANY = 1.35, 1.57
# What processes tell about the noise between runs counts as this many degrees of freedom: by simulation, where runs differ by up to
# six times what processes do, and 5 % in one of eight quiet points must still be found (tests/fit/test_comparison.py).
AS_GOOD_AS = 1.5
# Fewer points than this are not a probe as a whole.
FEWEST_OF_FAMILY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Medians:
    """A point on one side: seconds of its processes in the newest run, and the median of each run before, by run, oldest first."""

    label: str
    family: str
    seconds: tuple[float, ...]
    evidence: tuple[str, ...]
    run: str = ""
    earlier: Mapping[str, float] = field(default_factory=dict)

    @property
    def middle(self) -> float:
        """Return the logarithm of the median over processes: one that was disturbed must not move it."""
        return math.log(float(np.median(self.seconds)))

    @property
    def by_run(self) -> dict[str, float]:
        """Return the logarithm of each run's median, the newest last."""
        return {run: math.log(seconds) for run, seconds in self.earlier.items()} | {self.run: self.middle}


# Points by their keys.
Side = Mapping[str, Medians]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One point of B against A: ratio of seconds (over 1: B is slower), verdict, and the evidence of both.

    `shared` is the ratio that all points of the probe share and that was taken off. An interval without width means that nothing
    tells how much the point scatters.
    """

    key: str
    label: str
    family: str
    ratio: Interval
    verdict: Verdict
    shared: float = 1.0
    first: tuple[str, ...] = ()
    second: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A probe as a whole: what the median of its points moved by."""

    family: str
    ratio: Interval
    verdict: Verdict
    points: int


def families(keys: Sequence[str], side: Side) -> dict[str, list[str]]:
    """Return points by family, in order."""
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(side[key].family, []).append(key)
    return found


def compare(first: Side, second: Side, *, smallest: float = SMALLEST_EFFECT) -> list[Compared]:
    """Return every point that both sides have, the largest slow-down first."""
    from scipy.stats import false_discovery_control, t

    rows: list[Compared] = []
    chances: list[float] = []
    for family, keys in families([key for key in first if key in second], first).items():
        moves = {key: second[key].middle - first[key].middle for key in keys}
        between = _between_runs([[side[key] for key in keys] for side in (first, second)]) or _scatter(list(moves.values()))
        drift = _drift(list(moves.values()), smallest)
        common = shared([variance_of(np.log(side[key].seconds)) for side in (first, second) for key in keys])  # type: ignore[arg-type]
        for key in keys:
            one, other, move = first[key], second[key], moves[key] - drift
            error = _error(one, other, common, between)
            reach = float(t.ppf((1 + CONFIDENCE) / 2, error.freedom)) * math.sqrt(error.variance) if error.freedom else 0.0
            chance = 2 * float(t.sf(abs(move) / math.sqrt(error.variance), error.freedom)) if error.freedom else 1.0
            ratio = Interval(low=math.exp(move - reach), mid=math.exp(move), high=math.exp(move + reach))
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
        if row.verdict in (Verdict.SLOWER, Verdict.FASTER) and chance > FALSE_SHARE
        else row
        for row, chance in zip(rows, corrected, strict=True)
    ]
    return sorted(rows, key=lambda row: -row.ratio.mid)


def moved(first: Side, second: Side, *, smallest: float = SMALLEST_EFFECT) -> list[Moved]:
    """Return what each probe moved by as a whole, the largest slow-down first."""
    from scipy.stats import t

    rows = []
    for family, keys in families([key for key in first if key in second], first).items():
        if len(keys) < FEWEST_OF_FAMILY:
            continue
        moves = [second[key].middle - first[key].middle for key in keys]
        middle, scatter = float(np.median(moves)), max(deviation_around_median(moves), LEAST_DEVIATION)
        reach = (
            float(t.ppf((1 + CONFIDENCE) / 2, MAD_EFFICIENCY * (len(keys) - 1))) * scatter * math.sqrt(MEDIAN_OF_MANY / len(keys))
        )
        ratio = Interval(low=math.exp(middle - reach), mid=math.exp(middle), high=math.exp(middle + reach))
        rows.append(Moved(family=family, ratio=ratio, verdict=verdict_of(ratio, smallest), points=len(keys)))
    return sorted(rows, key=lambda row: -row.ratio.mid)


def _error(one: Medians, other: Medians, common: Estimate, between: Estimate) -> Estimate:
    """Return the variance of a point's move: of its processes, or between runs where those differ by more."""
    processes = Estimate()
    parts = [moderated(variance_of([math.log(s) for s in point.seconds]), common) for point in (one, other)]
    if all(part.freedom for part in parts):
        counts = [len(point.seconds) / (MEDIAN_OF_FEW if len(point.seconds) > 2 else 1.0) for point in (one, other)]
        variance = sum(part.variance / count for part, count in zip(parts, counts, strict=True))
        processes = Estimate(variance=variance, freedom=sum(part.freedom for part in parts))
    if between.freedom and processes.freedom:
        drawn = moderated(between, replace(processes, freedom=min(processes.freedom, AS_GOOD_AS)))
        chosen = drawn if drawn.variance > processes.variance else processes
    else:
        chosen = between if between.freedom else processes
    return replace(chosen, variance=max(chosen.variance, LEAST_DEVIATION**2))


def _drift(moves: Sequence[float], smallest: float) -> float:
    """Return what the points of a probe moved by together; 0 where that is enough to count, or where they are few."""
    if len(moves) < FEWEST_FOR_SCATTER:
        return 0.0
    middle = float(np.median(moves))
    return middle if abs(middle) < math.log1p(smallest) else 0.0


def _between_runs(sides: Sequence[Sequence[Medians]]) -> Estimate | None:
    """Return the variance of a move between two runs of one machine, from the runs that came before; None where they are few."""
    differences: list[float] = []
    for side in sides:
        steps: dict[tuple[str, str], list[float]] = {}
        for point in side:
            for (before, one), (after, other) in pairwise(point.by_run.items()):
                steps.setdefault((before, after), []).append(other - one)
        for moves in steps.values():
            drift = _drift(moves, SMALLEST_EFFECT)
            differences += [abs(move - drift) for move in moves]
    if len(differences) < FEWEST_FOR_SCATTER:
        return None
    return Estimate(variance=(MAD_TO_DEVIATION * float(np.median(differences))) ** 2, freedom=MAD_EFFICIENCY * len(differences))


def _scatter(moves: Sequence[float]) -> Estimate:
    """Return the variance of a move from how moves scatter around what most points moved by; nothing where they are few."""
    if len(moves) < FEWEST_FOR_SCATTER:
        return Estimate()
    return Estimate(variance=deviation_around_median(moves) ** 2, freedom=MAD_EFFICIENCY * (len(moves) - 1))
