"""How much the figures of a point scatter, where few of its own can tell: variances shared among the points of one probe.

A point has a handful of processes, and the variance of a handful is nearly unknown. Points of one probe have variances alike, so
each is drawn towards what they share, by as much as they are seen to be alike (moderated variances: Smyth 2004,
doi 10.2202/1544-6115.1027). Everything is in logarithms of seconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Of intervals.
CONFIDENCE = 0.99
# Medians of seconds differ by this much by the clock alone.
LEAST_DEVIATION = 0.002
MAD_TO_DEVIATION = 1.4826
# A deviation from absolute distances to the median is known as well as one from this share of the values by their squares.
MAD_EFFICIENCY = 0.37
# By how much the variance of a median is over that of a mean: of three or more normal values, and of very many.
MEDIAN_OF_FEW, MEDIAN_OF_MANY = 1.35, 1.57
# Below so many values their scatter is not taken for a deviation.
FEWEST_FOR_SCATTER = 8
# So few variances cannot show how alike they are.
FEWEST_VARIANCES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A variance, and how many degrees of freedom are behind it; none at all where nothing is known."""

    variance: float = 0.0
    freedom: float = 0.0


def variance_of(logs: Sequence[float]) -> Estimate:
    """Return the variance of one point's own figures."""
    if len(logs) < 2:
        return Estimate()
    return Estimate(variance=float(np.var(logs, ddof=1)), freedom=len(logs) - 1.0)


def shared(estimates: Sequence[Estimate]) -> Estimate:
    """Return what variances share: the scaled F distribution that fits them, by the moments of their logarithms.

    Its freedom is large where all are alike, small where they differ, and never more than all of them have together.
    """
    from scipy.optimize import brentq
    from scipy.special import digamma, polygamma

    known = [each for each in estimates if each.freedom > 0]
    if not known:
        return Estimate()
    half = np.array([each.freedom for each in known]) / 2
    values = np.array([max(each.variance, (LEAST_DEVIATION / 4) ** 2) for each in known])
    centred = np.log(values) - digamma(half) + np.log(half)
    middle, everything = float(centred.mean()), float(2 * half.sum())
    if len(known) < FEWEST_VARIANCES:
        return Estimate(variance=float((values * half).sum() / half.sum()))
    excess = float(centred.var(ddof=1) - polygamma(1, half).mean())
    # Variances that scatter no more than chance has them are all one.
    if excess <= float(polygamma(1, everything / 2)):
        return Estimate(variance=math.exp(middle), freedom=everything)
    freedom = 2 * float(brentq(lambda y: float(polygamma(1, y)) - excess, 1e-3, everything))
    return Estimate(
        variance=math.exp(middle + float(digamma(freedom / 2)) - math.log(freedom / 2)),
        freedom=freedom,
    )


def moderated(own: Estimate, common: Estimate) -> Estimate:
    """Return a point's variance drawn towards the shared one, by their degrees of freedom."""
    freedom = own.freedom + common.freedom
    if freedom == 0:
        return common
    return Estimate(
        variance=(own.freedom * own.variance + common.freedom * common.variance) / freedom,
        freedom=freedom,
    )


def deviation_around_median(values: Sequence[float]) -> float:
    """Return the deviation of values from their absolute distances to the median: a few outliers do not move it."""
    return MAD_TO_DEVIATION * float(np.median(np.abs(np.array(values) - float(np.median(values)))))
