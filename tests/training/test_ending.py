"""How a run ends, when it is saved, and the record that follows."""

import math

import pytest
from mi300bench.schema.record import Outcome

from mi300bench_training.ending import Ending, ending_after, is_save_due


@pytest.mark.parametrize(
    ("step", "loss", "is_interrupted", "ending"),
    [
        (3, 1.0, False, None),
        (3, 1.0, True, Ending.INTERRUPTED),
        (8, 1.0, False, Ending.FINISHED),
        (8, 1.0, True, Ending.FINISHED),
        (3, math.nan, False, Ending.DIVERGED),
        (8, math.inf, True, Ending.DIVERGED),
    ],
)
def test_a_run_ends_as_its_last_step_did(
    step: int, loss: float, is_interrupted: bool, ending: Ending | None
) -> None:
    assert ending_after(step=step, steps=8, loss=loss, is_interrupted=is_interrupted) is ending


def test_an_ending_is_an_outcome_and_a_reason_where_there_is_one() -> None:
    assert {ending: ending.outcome for ending in Ending} == {
        Ending.FINISHED: Outcome.OK,
        Ending.INTERRUPTED: Outcome.FAILED,
        Ending.DIVERGED: Outcome.WRONG_ANSWER,
    }
    reasons = {ending: ending.reason(step=5, steps=8, loss=math.nan) for ending in Ending}
    assert [ending for ending, reason in reasons.items() if not reason] == [Ending.FINISHED]


def test_a_run_is_saved_at_intervals_and_at_its_end_but_never_when_it_diverged() -> None:
    def due(step: int, ending: Ending | None) -> bool:
        return is_save_due(step=step, every=4, ending=ending)

    assert due(4, None) and not due(5, None)
    assert due(5, Ending.INTERRUPTED) and due(5, Ending.FINISHED)
    assert not due(5, Ending.DIVERGED) and not due(8, Ending.DIVERGED)
