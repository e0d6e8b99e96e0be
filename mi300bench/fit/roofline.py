"""Memory bandwidth by footprint. The cache knees come from the data, not from a specification.

A memory curve is a staircase: within a cache level the bandwidth is roughly constant, and from one
level to the next it falls. Dynamic programming gives the best staircase in the logarithm of the
bandwidth for each number of levels; the Bayesian information criterion chooses the number.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mi300bench import stats
from mi300bench.errors import RecordError
from mi300bench.schema.record import Measurement

MOST_LEVELS = 4
# Bandwidths of one level scatter by at least this much, in the logarithm.
LEAST_SCATTER = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A range of footprints with one bandwidth, in bytes and bytes per second."""

    first_bytes: float
    last_bytes: float
    bandwidth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCurve:
    """The bandwidth of one access pattern and kernel variant, with its levels."""

    pattern: str
    variant: str
    footprints: tuple[float, ...]
    bandwidths: tuple[float, ...]
    levels: tuple[Level, ...]
    evidence: tuple[str, ...]

    @property
    def knees(self) -> tuple[float, ...]:
        """Return the footprints in bytes at which the bandwidth falls from one level to the next.

        A rise is no knee: there a call's work outgrows its overhead.
        """
        falls = [
            (one, other)
            for one, other in itertools.pairwise(self.levels)
            if other.bandwidth < one.bandwidth
        ]
        return tuple(math.sqrt(one.last_bytes * other.first_bytes) for one, other in falls)

    @property
    def sustained(self) -> float:
        """Return the bandwidth at the largest footprints, in bytes per second."""
        return self.levels[-1].bandwidth


def staircase(logs: NDArray[np.float64]) -> list[int]:
    """Return the starts of the levels of the best staircase through `logs`, in order."""
    count = len(logs)
    sums, squares = (np.concatenate([[0.0], np.cumsum(values)]) for values in (logs, logs**2))

    def cost(start: int, end: int) -> float:
        return float(squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start))

    best: dict[tuple[int, int], tuple[float, list[int]]] = {(0, 0): (0.0, [])}
    answers: list[tuple[float, list[int]]] = []
    for levels in range(1, min(MOST_LEVELS, count) + 1):
        for end in range(1, count + 1):
            options = [
                (
                    best[levels - 1, start][0] + cost(start, end),
                    [*best[levels - 1, start][1], start],
                )
                for start in range(end)
                if (levels - 1, start) in best
            ]
            if options:
                best[levels, end] = min(options, key=lambda option: option[0])
        total, starts = best[levels, count]
        scatter = max(total / count, LEAST_SCATTER**2)
        answers.append((count * math.log(scatter) + 2 * levels * math.log(count), starts))
    return min(answers, key=lambda answer: answer[0])[1]


def fit_memory(groups: Sequence[Sequence[Measurement]]) -> MemoryCurve:
    """Return the curve of one pattern and variant, each point given as its passes."""
    if not groups:
        raise RecordError(
            "the store has no memory point of that pattern", hint="measure it: mi300bench hbm"
        )
    rows = []
    for passes in groups:
        work = passes[0].work
        seconds = stats.interval_of(passes).mid
        rows.append(
            (
                work.bytes_read + work.bytes_written,
                stats.bandwidth(work, seconds),
                [record.id for record in passes],
            )
        )
    rows.sort(key=lambda row: row[0])
    footprints, bandwidths = [row[0] for row in rows], [row[1] for row in rows]
    starts = staircase(np.log(np.array(bandwidths)))
    ends = [*starts[1:], len(rows)]
    first = groups[0][0]
    return MemoryCurve(
        pattern=first.probe.removeprefix("memory."),
        variant=str(first.params.get("variant", "op")),
        footprints=tuple(footprints),
        bandwidths=tuple(bandwidths),
        levels=tuple(
            Level(
                first_bytes=footprints[start],
                last_bytes=footprints[end - 1],
                bandwidth=stats.typical(bandwidths[start:end]),
            )
            for start, end in zip(starts, ends, strict=True)
        ),
        evidence=tuple(identity for row in rows for identity in row[2]),
    )
