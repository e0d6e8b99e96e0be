"""The pick, after fresh interleaved runs of the default and of the best candidates.

A candidate is picked only where it is faster than the default beyond the noise and by a relevant amount.
Otherwise the default stays: that is an answer, not a failure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mi300bench import stats
from mi300bench.schema.config import Confirmation
from mi300bench.schema.model import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which candidate, by its place among the candidates (0 is the default), and what the runs said.

    `best` is the fastest of the candidates beside the default, picked or not; the verdict is about it.
    """

    pick: int
    best: int
    verdict: Confirmation
    seconds: tuple[Interval, ...]
    ratios: tuple[Interval, ...]  # candidate over default, of paired runs
    verdicts: tuple[stats.Verdict, ...]
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


def decide(medians: Sequence[Sequence[float]]) -> Decision:
    """Return the decision from medians of fresh runs: one row a candidate, the default first, one column a round."""
    default = medians[0]
    compared = [stats.compare(default, row) for row in medians]
    faster = [index for index, result in enumerate(compared) if index and result.verdict is stats.Verdict.FASTER]
    pick = min(faster, key=lambda index: compared[index].ratio.mid) if faster else 0
    best = pick or min(range(1, len(medians)), key=lambda index: compared[index].ratio.mid)
    return Decision(
        pick=pick,
        best=best,
        verdict=_VERDICTS[compared[best].verdict],
        seconds=tuple(stats.interval_over_processes(row, within=1.0) for row in medians),
        ratios=tuple(result.ratio for result in compared),
        verdicts=tuple(stats.Verdict.SAME if index == 0 else r.verdict for index, r in enumerate(compared)),
        rounds=len(default),
    )
