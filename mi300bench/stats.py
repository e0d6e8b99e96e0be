"""All statistics of the project, as functions of records and samples.

Each process is represented by its median. Intervals are computed over process medians: samples of
one process are correlated, and a user also meets the variance between processes. A rate is the work
over the median time, never a mean of rates.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement, Outcome, Work

# A difference counts only if it exceeds both this and the noise.
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
    """B against A. `ratio` is the ratio of their times: below 1, B is faster."""

    ratio: Interval
    p_value: float | None
    verdict: Verdict


def typical(samples: Sequence[float]) -> float:
    """Return the median, which a single stall does not change."""
    return statistics.median(samples)


def relative_half_width(samples: Sequence[float]) -> float:
    """Return half the width of the median's confidence interval, relative to the median.

    Distribution-free: the samples of rank n/2 +- z sqrt(n)/2 bound the median. The result is
    infinite for fewer than five samples.
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
    """Return the median seconds of one call; raise `ValueError` if the outcome is not ok."""
    if record.outcome is not Outcome.OK:
        raise ValueError(
            f"{record.probe} {dict(record.params)} has no speed: its outcome is {record.outcome}"
        )
    return typical(record.samples)


def bandwidth(work: Work, seconds: float) -> float:
    """Return the bytes that one call reads and writes per second."""
    return (work.bytes_read + work.bytes_written) / seconds


def flop_rate(work: Work, seconds: float) -> float:
    """Return the FLOP per second of one call."""
    return work.flop / seconds


def _student(confidence: float, freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.5 + confidence / 2, freedom))


def interval_over_processes(medians: Sequence[float], within: float = 0.0) -> Interval:
    """Return the median of positive process medians and its interval, symmetric in the logarithm.

    `within` is the relative half-width inside a process. It is used only if there is one process.
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
        raise ValueError("no record has the outcome ok, so there is no interval")
    within = max(min(relative_half_width(record.samples), 1.0) for record in passes)
    return interval_over_processes([seconds_per_call(record) for record in passes], within)


def ratio_of_pairs(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return second / first over interleaved pairs of process medians, with its interval."""
    if len(first) != len(second) or not first:
        raise ValueError(
            f"paired runs need equal, non-zero counts (got {len(first)} and {len(second)})"
        )
    return interval_over_processes([b / a for a, b in zip(first, second, strict=True)], within=1.0)


def rank_test(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the two-sided p value of the Mann-Whitney test; None below three values per side."""
    if min(len(first), len(second)) < 3:
        return None
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(first, second, alternative="two-sided").pvalue)


def verdict_of(ratio: Interval, smallest: float = SMALLEST_EFFECT) -> Verdict:
    """Return the verdict for a ratio of times, given its interval.

    Faster or slower: the interval excludes 1 and the effect exceeds `smallest`. Same: the whole
    interval lies within `smallest` of 1. Otherwise the data cannot tell.
    """
    excludes_one = ratio.high < 1 or ratio.low > 1
    if excludes_one and abs(ratio.mid - 1) > smallest:
        return Verdict.FASTER if ratio.mid < 1 else Verdict.SLOWER
    if ratio.low >= 1 - smallest and ratio.high <= 1 + smallest:
        return Verdict.SAME
    return Verdict.CANNOT_TELL


def compare(
    first: Sequence[float], second: Sequence[float], *, smallest: float = SMALLEST_EFFECT
) -> Comparison:
    """Compare interleaved process medians of A and B; see `verdict_of` for the rule."""
    ratio = ratio_of_pairs(first, second)
    return Comparison(
        ratio=ratio, p_value=rank_test(first, second), verdict=verdict_of(ratio, smallest)
    )
