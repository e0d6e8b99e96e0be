"""Which one of several stands out: a node among nodes, a rank of a group, a pair among pairs.

The value farthest from the others is tested against them, then the next, up to a quarter of all
(generalised extreme studentised deviates, Rosner 1983). A few values give a poor estimate of their
spread, so it is moderated with an assumed one; the level is corrected for the number of values.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mi300bench.comparison.medians import Side
from mi300bench.comparison.noise import (
    CONFIDENCE,
    LEAST_DEVIATION,
    Estimate,
    moderated,
    shared,
    variance_of,
)
from mi300bench.schema.model import Interval
from mi300bench.stats import SMALLEST_EFFECT

# Assumed, not measured: parts of one kind differ by 1 %, which counts like four degrees of freedom.
ALIKE = Estimate(variance=0.01**2, freedom=4.0)
LEVEL = 1 - CONFIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One of several values: its ratio to the others' mean (99 %), and whether it stands out."""

    place: int
    ratio: Interval
    is_odd: bool


def standings(
    logs: Sequence[float], *, noise: float = LEAST_DEVIATION, both_ways: bool = False
) -> list[Standing]:
    """Return the standing of each value among the others; empty below three values.

    `logs` are logarithms of seconds; `noise` is the deviation that measuring alone gives a value.
    Only larger values are odd, unless `both_ways`.
    """
    values = [float(value) for value in logs]
    if len(values) < 3:
        return []
    odd = _odd(values, noise, both_ways=both_ways)
    rows = []
    for place, value in enumerate(values):
        rest = [other for at, other in enumerate(values) if at != place and at not in odd]
        away, deviation, freedom = _away(value, rest, noise)
        reach = _quantile(freedom) * deviation
        ratio = Interval(
            low=math.exp(away - reach), mid=math.exp(away), high=math.exp(away + reach)
        )
        rows.append(Standing(place=place, ratio=ratio, is_odd=place in odd))
    return rows


def _odd(values: Sequence[float], noise: float, *, both_ways: bool) -> set[int]:
    from scipy.stats import t

    left, order, last = list(range(len(values))), [], 0
    for number in range(max(1, len(values) // 4)):
        candidates = []
        for place in left:
            away, deviation, freedom = _away(
                values[place], [values[at] for at in left if at != place], noise
            )
            candidates.append(((abs(away) if both_ways else away) / deviation, freedom, place))
        size, freedom, place = max(candidates)
        tries = len(left) * (2 if both_ways else 1)
        if float(t.sf(size, freedom)) * tries < LEVEL:
            last = number + 1
        order.append(place)
        left.remove(place)
    return set(order[:last])


def _away(value: float, rest: Sequence[float], noise: float) -> tuple[float, float, float]:
    """Return a value's distance to the others' mean, its deviation and its degrees of freedom."""
    spread = moderated(variance_of(rest), ALIKE)
    deviation = math.sqrt(max(spread.variance, noise**2) * (1 + 1 / len(rest)))
    return value - float(np.mean(rest)), deviation, spread.freedom


def _quantile(freedom: float) -> float:
    from scipy.stats import t

    return float(t.ppf((1 + CONFIDENCE) / 2, freedom))


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """One side among several, for one family: its seconds over the others', and its worst point.

    `ratio` is the median over the points.
    """

    name: str
    family: str
    ratio: Interval
    points: int
    is_odd: bool
    worst: str = ""
    worst_ratio: float = 1.0


def odd_ones(sides: Mapping[str, Side], *, smallest: float = SMALLEST_EFFECT) -> list[Odd]:
    """Return each side against the others, family by family: odd ones first, then the slowest.

    Points count that at least three sides have. A side is odd where it stands out among the others
    and takes longer by more than `smallest`.
    """
    rows: list[Odd] = []
    for family, keys in _shared_points(sides).items():
        names = [name for name in sides if any(key in sides[name] for key in keys)]
        table = np.array(
            [
                [sides[name][key].middle if key in sides[name] else math.nan for key in keys]
                for name in names
            ]
        )
        away = table - np.nanmedian(table, axis=0)
        middles = np.nanmedian(away, axis=1)
        common = shared(
            [variance_of(side[key].logs) for side in sides.values() for key in keys if key in side]
        )
        noise = math.sqrt(
            max(common.variance, LEAST_DEVIATION**2)
            / float(np.median(np.sum(~np.isnan(table), axis=1)))
        )
        for row in standings([float(value) for value in middles], noise=noise):
            own = away[row.place]
            worst = int(np.nanargmax(own))
            rows.append(
                Odd(
                    name=names[row.place],
                    family=family,
                    ratio=row.ratio,
                    points=int(np.sum(~np.isnan(own))),
                    is_odd=row.is_odd and row.ratio.mid - 1 > smallest,
                    worst=next(
                        side[keys[worst]].label for side in sides.values() if keys[worst] in side
                    ),
                    worst_ratio=math.exp(float(own[worst])),
                )
            )
    return sorted(rows, key=lambda row: (not row.is_odd, -row.ratio.mid))


def _shared_points(sides: Mapping[str, Side]) -> dict[str, list[str]]:
    """Return the points that at least three sides have, by family."""
    counts: dict[str, int] = {}
    family = {}
    for side in sides.values():
        for key, point in side.items():
            counts[key] = counts.get(key, 0) + 1
            family[key] = point.family
    by_family: dict[str, list[str]] = {}
    for key, count in counts.items():
        if count >= 3:
            by_family.setdefault(family[key], []).append(key)
    return by_family
