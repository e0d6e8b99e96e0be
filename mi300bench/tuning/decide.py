"""The pick, after fresh interleaved runs of the default, the predicted best, and its ablations.

An arm is picked only if it is faster than the default beyond the noise and by a relevant amount.
If several are, and the runs cannot tell them from the fastest, the arm with the fewest changed
knobs is picked. Otherwise the default stays: that is a result, not a failure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mi300bench import stats
from mi300bench.schema.config import Confirmation
from mi300bench.schema.model import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The pick, and what the fresh runs showed of each arm.

    `pick` and `best` are indices of arms; 0 is the default. `best` is the pick, or the fastest
    other arm where the default stays. The verdict compares `best` with the default.
    """

    pick: int
    best: int
    verdict: Confirmation
    seconds: tuple[Interval, ...]
    ratios: tuple[Interval, ...]  # arm over default, of paired runs
    verdicts: tuple[stats.Verdict, ...]
    against_best: tuple[Interval, ...]  # arm over the predicted best (arm 1), of paired runs
    rounds: int


_VERDICTS = {
    stats.Verdict.FASTER: Confirmation.FASTER,
    stats.Verdict.SAME: Confirmation.SAME,
    stats.Verdict.SLOWER: Confirmation.SLOWER,
    stats.Verdict.CANNOT_TELL: Confirmation.CANNOT_TELL,
}


def complete_rounds(medians: Mapping[int, Mapping[int, float]], candidates: int) -> list[int]:
    """Return the rounds in which every candidate has a median.

    `medians` is by candidate, then by round.
    """
    rounds = [set(medians.get(index, {})) for index in range(candidates)]
    return sorted(set.intersection(*rounds)) if rounds else []


def decide(medians: Sequence[Sequence[float]], *, changed: Sequence[int]) -> Decision:
    """Return the decision from medians of fresh runs.

    `medians` has a row for each arm, the default first, and a column for each round. `changed` is
    the number of knobs that each arm changes.
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
