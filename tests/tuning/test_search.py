"""Ranking, dropping small gains, and choosing what gets fresh runs, on a space with known steps."""

from types import SimpleNamespace

import pytest
from mi300bench.errors import PlanError
from mi300bench.schema.candidate import Candidate, Knob, Option, combinations, default_of
from mi300bench.schema.config import Confirmation
from mi300bench.tuning.decide import decide
from mi300bench.tuning.search import arms, rank, simplest

# Seconds that each option takes off a step of ten.
SAVES = {("a", 1): 2.0, ("b", 1): 0.05, ("c", 1): 1.0, ("c", 2): -3.0}
KNOBS = [
    Knob(name="a", options=(Option(), Option(keys={"part.a": 1}))),
    Knob(name="b", options=(Option(), Option(keys={"part.b": 1}))),
    Knob(
        name="c",
        options=(Option(), Option(keys={"part.c": 1}), Option(keys={"part.c": 2}, work=2.0)),
    ),
]


def simulate(candidate: Candidate) -> SimpleNamespace:
    saved = sum(SAVES[key.removeprefix("part."), value] for key, value in candidate.keys.items())
    return SimpleNamespace(step_s=10.0 - saved, transfers=())


@pytest.fixture
def ranked():
    return rank(combinations(KNOBS, most=100), simulate)


def test_candidates_are_compared_for_the_same_useful_work(ranked) -> None:
    assert len(ranked) == 12
    # Twice the work in 13 seconds is 6.5 for the default's; a takes 2 off the step before that.
    assert ranked[0].candidate.keys == {"part.a": 1, "part.b": 1, "part.c": 2}
    assert ranked[0].seconds == pytest.approx((10 - 2 - 0.05 + 3) / 2)


def test_a_change_whose_predicted_gain_is_too_small_is_dropped(ranked) -> None:
    kept = simplest(ranked[0].candidate, simulate, lambda _: True)
    assert kept.changed == ("a", "c")
    # Unless what is left without it does not fit.
    assert simplest(ranked[0].candidate, simulate, lambda c: "b" in c.changed).changed == (
        "a",
        "b",
        "c",
    )


def test_a_pick_of_several_changes_runs_with_its_ablations_fastest_first(ranked) -> None:
    default = default_of(KNOBS)
    pick = simplest(ranked[0].candidate, simulate, lambda _: True)
    chosen = arms(default, pick, ranked, simulate, count=2)
    assert [arm.reverts for arm in chosen] == ["", "", "a", "c"]
    assert not chosen[0].candidate.changed and chosen[2].candidate.changed == ("c",)


def test_without_a_pick_the_best_other_candidate_runs_to_test_the_prediction(ranked) -> None:
    default = default_of(KNOBS)
    chosen = arms(default, default, ranked, simulate, count=2)
    assert len(chosen) == 2 and chosen[1].candidate is ranked[0].candidate


def test_a_pick_of_one_change_runs_with_the_next_best(ranked) -> None:
    default = default_of(KNOBS)
    pick = default.with_option("a", KNOBS[0].options[1])
    chosen = arms(default, pick, ranked, simulate, count=2)
    assert [len(arm.candidate.changed) for arm in chosen] == [0, 1, 3]


def test_too_large_a_space_is_an_error_and_never_a_part() -> None:
    with pytest.raises(PlanError, match="a:2 x b:2 x c:3"):
        list(combinations(KNOBS, most=11))


def test_of_arms_that_tie_the_one_with_the_fewest_changes_is_picked() -> None:
    default = [10.0, 10.1, 9.9]
    both = [8.0, 8.1, 7.9]
    without_b = [8.02, 8.08, 7.95]
    without_a = [9.6, 9.7, 9.5]
    decision = decide([default, both, without_a, without_b], changed=[0, 2, 1, 1])
    assert decision.pick == 3 and decision.verdict is Confirmation.FASTER
    assert decision.against_best[2].mid == pytest.approx(9.6 / 8.0, rel=0.01)
    # Where the simpler one is clearly slower, the changes pay and stay.
    decision = decide([default, both, without_a], changed=[0, 2, 1])
    assert decision.pick == 1


def test_noise_keeps_the_default() -> None:
    decision = decide([[1.0, 1.1, 0.9], [0.9, 1.15, 0.95]], changed=[0, 1])
    assert decision.pick == 0 and decision.verdict is Confirmation.CANNOT_TELL
