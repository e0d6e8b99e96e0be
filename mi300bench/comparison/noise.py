"""The variance of a point, estimated together with the other points of its probe.

A point has a few processes, and a few values give a poor estimate of a variance. The points of one
probe have similar variances. So each estimate is moved towards the common one, more so the more
similar the variances are (moderated variances: Smyth 2004, doi 10.2202/1544-6115.1027). All values
are logarithms of seconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# The level of all intervals.
CONFIDENCE = 0.99
# The clock by itself makes medians of seconds differ by this much.
LEAST_DEVIATION = 0.002
# The standard deviation of normal values over their median absolute deviation (MAD).
MAD_TO_DEVIATION = 1.4826
# A deviation from the MAD is as uncertain as one from the squares of this share of the values.
MAD_EFFICIENCY = 0.37
# The variance of a median over that of a mean: of a few normal values, and of very many.
MEDIAN_OF_FEW, MEDIAN_OF_MANY = 1.35, 1.57
# Fewer values than this give no deviation from their scatter.
FEWEST_FOR_SCATTER = 8
# Fewer variances than this do not show how similar they are.
FEWEST_VARIANCES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A variance with its degrees of freedom; zero degrees where nothing is known."""

    variance: float = 0.0
    freedom: float = 0.0


def variance_of(logs: Sequence[float]) -> Estimate:
    """Return the variance of one point's own figures."""
    if len(logs) < 2:
        return Estimate()
    return Estimate(variance=float(np.var(logs, ddof=1)), freedom=len(logs) - 1.0)


def shared(estimates: Sequence[Estimate]) -> Estimate:
    """Return the common variance of several: the scaled F distribution that fits them.

    The fit uses the moments of the logarithms. The result's degrees of freedom are many where the
    variances are alike, few where they differ, and at most those of all variances together.
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
    # Variances that scatter no more than by chance are taken as one.
    if excess <= float(polygamma(1, everything / 2)):
        return Estimate(variance=math.exp(middle), freedom=everything)
    freedom = 2 * float(brentq(lambda y: float(polygamma(1, y)) - excess, 1e-3, everything))
    return Estimate(
        variance=math.exp(middle + float(digamma(freedom / 2)) - math.log(freedom / 2)),
        freedom=freedom,
    )


def moderated(own: Estimate, common: Estimate) -> Estimate:
    """Return the mean of a point's own variance and the common one, by degrees of freedom."""
    freedom = own.freedom + common.freedom
    if freedom == 0:
        return common
    return Estimate(
        variance=(own.freedom * own.variance + common.freedom * common.variance) / freedom,
        freedom=freedom,
    )


def deviation_around_median(values: Sequence[float]) -> float:
    """Return the standard deviation, estimated from the MAD, which a few outliers do not move."""
    return MAD_TO_DEVIATION * float(np.median(np.abs(np.array(values) - float(np.median(values)))))
