"""Rank candidates by their predicted step, and choose which of them get fresh runs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mi300bench.fit.step import SimulatedStep
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.model import Prediction

# The smallest predicted gain, as a share of the step, for which a knob is changed. The fits cannot
# resolve a smaller one.
WORTH_A_CHANGE = 0.015


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate with its predicted seconds for the default's useful work in a step."""

    candidate: Candidate
    seconds: float
    simulated: SimulatedStep


Simulate = Callable[[Candidate], SimulatedStep]
Predict = Callable[[Candidate], Prediction]


def rank(candidates: Iterable[Candidate], simulate: Simulate) -> list[Ranked]:
    """Return the candidates, fastest predicted first.

    Of equally fast ones, that with fewer changed knobs comes first, then that with fewer buckets.
    """
    rows = []
    for candidate in candidates:
        step = simulate(candidate)
        rows.append(
            Ranked(candidate=candidate, seconds=step.step_s / candidate.work, simulated=step)
        )
    return sorted(
        rows,
        key=lambda row: (row.seconds, len(row.candidate.changed), len(row.simulated.transfers)),
    )


def simplest(best: Candidate, simulate: Simulate, fits: Callable[[Candidate], bool]) -> Candidate:
    """Return `best` without the changes whose predicted gain is too small.

    The change with the smallest gain is put back first. No change is put back if the candidate then
    does not fit into memory.
    """

    def seconds(candidate: Candidate) -> float:
        return simulate(candidate).step_s / candidate.work

    while best.changed:
        reverted = [best.without(name) for name in best.changed]
        allowed = [candidate for candidate in reverted if fits(candidate)]
        if not allowed:
            break
        cheapest = min(allowed, key=seconds)
        if seconds(cheapest) > seconds(best) * (1 + WORTH_A_CHANGE):
            break
        best = cheapest
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A candidate that gets fresh runs.

    `reverts` is the knob that an ablation puts back to its default; it is empty for other arms.
    """

    candidate: Candidate
    reverts: str = ""


def arms(
    default: Candidate, pick: Candidate, ranked: Sequence[Ranked], simulate: Simulate, *, count: int
) -> list[Arm]:
    """Return the arms: the default, the pick, and the pick's ablations.

    A pick with one change has no ablation. Then the next best candidates run, so that `count`
    candidates run in addition to the default. The ablation with the fastest predicted step comes
    first, because a short budget drops the last arms.
    """
    chosen = [Arm(candidate=default)]
    if not pick.changed:  # the best other candidate runs, to test the prediction
        return (
            chosen + [Arm(candidate=row.candidate) for row in ranked if row.candidate.changed][:1]
        )
    chosen.append(Arm(candidate=pick))
    if len(pick.changed) > 1:
        ablations = [Arm(candidate=pick.without(name), reverts=name) for name in pick.changed]
        return chosen + sorted(
            ablations, key=lambda arm: simulate(arm.candidate).step_s / arm.candidate.work
        )
    taken = {arm.candidate.identity for arm in chosen}
    for row in ranked:
        if len(chosen) > count:
            break
        if row.candidate.identity not in taken:
            taken.add(row.candidate.identity)
            chosen.append(Arm(candidate=row.candidate))
    return chosen
