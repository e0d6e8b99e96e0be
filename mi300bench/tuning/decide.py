"""The pick, after fresh interleaved runs of the default, of the predicted best, and of its ablations.

A candidate is taken only where it is faster than the default beyond the noise and by a relevant amount. Among those that
are, and cannot be told from the fastest of them, the one that changes the fewest knobs is taken. Otherwise the default
stays: that is an answer, not a failure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mi300bench import stats
from mi300bench.schema.config import Confirmation
from mi300bench.schema.model import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which side, by its place (0 is the default), and what the runs said.

    `best` is the fastest of the sides beside the default, taken or not; the verdict is about it, and about the pick where
    one was taken.
    """

    pick: int
    best: int
    verdict: Confirmation
    seconds: tuple[Interval, ...]
    ratios: tuple[Interval, ...]  # side over default, of paired runs
    verdicts: tuple[stats.Verdict, ...]
    against_best: tuple[Interval, ...]  # side over the predicted best (place 1), of paired runs
    rounds: int


_VERDICTS = {
    stats.Verdict.FASTER: Confirmation.FASTER,
    stats.Verdict.SAME: Confirmation.SAME,
    stats.Verdict.SLOWER: Confirmation.SLOWER,
    stats.Verdict.CANNOT_TELL: Confirmation.CANNOT_TELL,
}


def complete_rounds(medians: Mapping[int, Mapping[int, float]], candidates: int) -> list[int]:
    """Return the rounds in which every candidate has a median; `medians` is by candidate, then by round."""
    rounds = [set(medians.get(index, {})) for index in range(candidates)]
    return sorted(set.intersection(*rounds)) if rounds else []


def decide(medians: Sequence[Sequence[float]], *, changed: Sequence[int]) -> Decision:
    """Return the decision from medians of fresh runs: one row a side, the default first, one column a round.

    `changed` counts the knobs that each side sets.
    """
    default = medians[0]
    compared = [stats.compare(default, row) for row in medians]
    faster = [
        index
        for index, result in enumerate(compared)
        if index and result.verdict is stats.Verdict.FASTER
    ]
    pick = 0
    if faster:
        leader = min(faster, key=lambda index: compared[index].ratio.mid)
        ties = [
            i
            for i in faster
            if stats.compare(medians[leader], medians[i]).verdict is not stats.Verdict.SLOWER
        ]
        pick = min(ties, key=lambda index: (changed[index], compared[index].ratio.mid))
    best = pick or min(range(1, len(medians)), key=lambda index: compared[index].ratio.mid)
    return Decision(
        pick=pick,
        best=best,
        verdict=_VERDICTS[compared[best].verdict],
        seconds=tuple(stats.interval_over_processes(row, within=1.0) for row in medians),
        ratios=tuple(result.ratio for result in compared),
        verdicts=tuple(
            stats.Verdict.SAME if index == 0 else r.verdict for index, r in enumerate(compared)
        ),
        against_best=tuple(
            stats.ratio_of_pairs(medians[min(1, len(medians) - 1)], row) for row in medians
        ),
        rounds=len(default),
    )
