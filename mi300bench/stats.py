"""Every statistic of the project: functions of records and samples, nowhere else.

The estimate is the median of each process; the interval is taken over process medians, because samples
of one process are correlated and the variance between processes is what a user meets. A rate is work
over the median time, never a mean of rates.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement, Outcome, Work

# An effect must exceed this as well as the noise before it is called one.
SMALLEST_EFFECT = 0.03
CONFIDENCE = 0.95


class Verdict(StrEnum):
    """How B compares with A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """B against A: the ratio of their times (under 1: B is faster), its interval, the rank test, the verdict."""

    ratio: Interval
    p_value: float | None
    verdict: Verdict


def typical(samples: Sequence[float]) -> float:
    """Return the median: a single stall must not move the answer."""
    return statistics.median(samples)


def relative_half_width(samples: Sequence[float]) -> float:
    """Return half the confidence interval of the median over the median, from order statistics.

    Distribution-free: the ranks n/2 +- z sqrt(n)/2 bound the median. Infinite below five samples.
    """
    count = len(samples)
    if count < 5:
        return math.inf
    ordered = sorted(samples)
    reach = 1.96 * math.sqrt(count) / 2
    low = ordered[max(0, math.floor(count / 2 - reach))]
    high = ordered[min(count - 1, math.ceil(count / 2 + reach))]
    middle = typical(ordered)
    return (high - low) / 2 / middle if middle > 0 else math.inf


def seconds_per_call(record: Measurement) -> float:
    """Return the median seconds of one call; `ValueError` where the record has no speed."""
    if record.outcome is not Outcome.OK:
        raise ValueError(
            f"{record.probe} {dict(record.params)} is {record.outcome}: it has no speed"
        )
    return typical(record.samples)


def bandwidth(work: Work, seconds: float) -> float:
    """Return bytes per second read and written by one call."""
    return (work.bytes_read + work.bytes_written) / seconds


def flop_rate(work: Work, seconds: float) -> float:
    """Return FLOP per second of one call."""
    return work.flop / seconds


def _student(confidence: float, freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.5 + confidence / 2, freedom))


def interval_over_processes(medians: Sequence[float], within: float = 0.0) -> Interval:
    """Return median and interval of positive process medians, symmetric in the logarithm.

    `within` is the relative half-width inside one process; it stands in where there is one process only.
    """
    middle = typical(medians)
    if len(medians) == 1:
        return Interval(
            low=middle * (1 - min(within, 0.99)), mid=middle, high=middle * (1 + within)
        )
    logs = [math.log(value) for value in medians]
    spread = statistics.stdev(logs) / math.sqrt(len(logs)) * _student(CONFIDENCE, len(logs) - 1)
    return Interval(low=middle * math.exp(-spread), mid=middle, high=middle * math.exp(spread))


def interval_of(records: Iterable[Measurement]) -> Interval:
    """Return the interval of seconds per call over the passes of one point."""
    passes = [record for record in records if record.outcome is Outcome.OK]
    if not passes:
        raise ValueError("no record with a speed")
    within = max(min(relative_half_width(record.samples), 1.0) for record in passes)
    return interval_over_processes([seconds_per_call(record) for record in passes], within)


def ratio_of_pairs(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return second / first over interleaved pairs of process medians, with its interval."""
    if len(first) != len(second) or not first:
        raise ValueError(f"pairs need equal, non-zero counts, not {len(first)} and {len(second)}")
    return interval_over_processes([b / a for a, b in zip(first, second, strict=True)], within=1.0)


def rank_test(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the two-sided p of Mann and Whitney, or None below three values a side."""
    if min(len(first), len(second)) < 3:
        return None
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(first, second, alternative="two-sided").pvalue)


def verdict_of(ratio: Interval, smallest: float = SMALLEST_EFFECT) -> Verdict:
    """Return what an interval of a ratio of seconds says: a change lies outside it and over the smallest effect."""
    excludes_one = ratio.high < 1 or ratio.low > 1
    if excludes_one and abs(ratio.mid - 1) > smallest:
        return Verdict.FASTER if ratio.mid < 1 else Verdict.SLOWER
    if ratio.low >= 1 - smallest and ratio.high <= 1 + smallest:
        return Verdict.SAME
    return Verdict.CANNOT_TELL


def compare(
    first: Sequence[float], second: Sequence[float], *, smallest: float = SMALLEST_EFFECT
) -> Comparison:
    """Compare interleaved process medians of A and B and say faster, slower, same or cannot tell.

    Same: the whole interval of the ratio lies within `smallest` of 1. Faster or slower: the interval
    excludes 1 and the effect exceeds `smallest`.
    """
    ratio = ratio_of_pairs(first, second)
    return Comparison(
        ratio=ratio, p_value=rank_test(first, second), verdict=verdict_of(ratio, smallest)
    )
