"""Ranking candidates by the step that the fits predict, and choosing which deserve a fresh run."""

from collections.abc import Sequence
from dataclasses import dataclass

from mi300bench.fit.packing import Caps
from mi300bench.fit.step import SimulatedStep, StepModel
from mi300bench.schema.model import Prediction
from mi300bench.tune.space import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate with its predicted step."""

    candidate: Candidate
    prediction: Prediction
    simulated: SimulatedStep

    def stands_for(self, value: Caps) -> bool:
        """Return whether `value` is this candidate, or packs like it."""
        return value == self.candidate.value or value in self.candidate.same_as


def rank(model: StepModel, candidates: Sequence[Candidate]) -> list[Ranked]:
    """Return the candidates, fastest predicted step first; of equal steps the fewer buckets first."""
    rows = [
        Ranked(
            candidate=candidate,
            prediction=model.predict(candidate.value),
            simulated=model.simulate(candidate.value),
        )
        for candidate in candidates
    ]
    return sorted(rows, key=lambda row: (row.prediction.value.mid, len(row.simulated.transfers)))


def shortlist(ranked: Sequence[Ranked], *, count: int) -> list[Ranked]:
    """Return the default and the `count` best others, which is what fresh runs have to tell apart."""
    default = next(row for row in ranked if row.stands_for("default"))
    return [default, *[row for row in ranked if row is not default][:count]]
