import pytest
from mi300bench.schema.config import Confirmation
from mi300bench.stats import Verdict
from mi300bench.tuning.decide import complete_rounds, decide


def test_the_faster_candidate_is_picked() -> None:
    decision = decide([[1.0, 1.01, 0.99], [0.9, 0.91, 0.89], [0.8, 0.81, 0.79]], changed=[0, 1, 1])
    assert decision.pick == 2 and decision.verdict is Confirmation.FASTER
    assert decision.ratios[2].mid == pytest.approx(0.8, rel=0.02) and decision.rounds == 3


def test_the_default_stays_where_the_data_cannot_tell() -> None:
    decision = decide([[1.0, 1.1, 0.9], [0.7, 1.3, 0.95]], changed=[0, 1])
    assert decision.pick == 0 and decision.verdict is Confirmation.CANNOT_TELL
    assert decision.verdicts[1] is Verdict.CANNOT_TELL


def test_an_irrelevant_gain_keeps_the_default() -> None:
    decision = decide([[1.0, 1.0, 1.0], [0.98, 0.98, 0.98]], changed=[0, 1])
    assert (
        decision.pick == 0
        and decision.verdict is Confirmation.SAME
        and decision.ratios[decision.best].mid < 1
    )


def test_a_slower_candidate_keeps_the_default() -> None:
    decision = decide([[1.0, 1.0, 1.0], [1.2, 1.2, 1.2]], changed=[0, 1])
    assert decision.pick == 0 and decision.verdict is Confirmation.SLOWER


def test_only_rounds_in_which_all_ran_count() -> None:
    assert complete_rounds({0: {0: 1.0, 1: 1.0}, 1: {1: 1.0, 2: 1.0}}, 2) == [1]
    assert complete_rounds({0: {0: 1.0}}, 2) == []
