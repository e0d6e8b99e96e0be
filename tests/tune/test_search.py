from dataclasses import replace

import pytest
from mi300bench.schema.config import Confirmation
from mi300bench.tune import zaya1
from mi300bench.tune.decide import decide
from mi300bench.tune.search import rank, shortlist
from mi300bench.tune.space import bucket_caps, distinct_packings
from tests.fit.test_step import model

# Forty gradients of 2 MiB, ready one after the other; the wire takes 20 ms for each, with a latency of 50 ms.
SIZES = [2.0] * 40


@pytest.fixture
def ranked():
    made = model([0.05 * (i + 1) for i in range(40)], SIZES, backward=2.0, latency=0.05)
    sizes = made.timeline.gradient_bytes
    return rank(made, distinct_packings(sizes, bucket_caps(sizes, torch_version="2.13")))


def test_the_best_predicted_is_the_best_simulated(ranked) -> None:
    steps = [row.simulated.step_s for row in ranked]
    assert steps == sorted(steps) and steps[0] < steps[-1]


def test_the_shortlist_has_the_default_first_and_then_the_best_others(ranked) -> None:
    chosen = shortlist(ranked, count=2)
    assert chosen[0].stands_for("default") and len(chosen) == 3
    assert chosen[1].simulated.step_s <= chosen[2].simulated.step_s


def ranked_with(*, error: float, spread: float):
    made = model([0.05 * (i + 1) for i in range(40)], SIZES, backward=2.0, latency=0.05)
    made = replace(made, link=replace(made.link, errors=(error,)), timeline=replace(made.timeline, spread=spread))
    sizes = made.timeline.gradient_bytes
    return rank(made, distinct_packings(sizes, bucket_caps(sizes, torch_version="2.13")))


def test_without_fresh_runs_a_better_candidate_is_picked_where_the_fits_are_sure() -> None:
    sure = ranked_with(error=1e-9, spread=0.0)
    picked = zaya1.predicted_pick(sure)
    assert picked is sure[0] and not picked.stands_for("default")


def test_without_fresh_runs_the_default_stays_where_they_are_not() -> None:
    assert zaya1.predicted_pick(ranked_with(error=0.5, spread=0.2)).stands_for("default")


def test_a_confirmed_choice_says_how_much_and_from_which_records(ranked) -> None:
    chosen = shortlist(ranked, count=2)
    decision = decide([[1.0, 1.0, 1.0], [0.8, 0.8, 0.8], [0.9, 0.9, 0.9]])
    made = zaya1.choice(ranked, chosen, decision, evidence=["a", "b"], doubts=["d"])
    assert made.value == chosen[1].candidate.value and "0.800" in made.why and made.evidence == ("a", "b")
    confirmed = zaya1.confirmed(chosen, decision, ["b"])
    assert confirmed.verdict is Confirmation.FASTER and len(confirmed.others) == 1


def test_a_kept_default_says_so(ranked) -> None:
    chosen = shortlist(ranked, count=1)
    made = zaya1.choice(ranked, chosen, decide([[1.0] * 3, [1.0] * 3]), evidence=["a"], doubts=[])
    assert made.value == "default" and "default stays" in made.why


def test_a_gradient_larger_than_the_bucket_is_said(ranked) -> None:
    assert zaya1.indivisible(model([1.0, 2.0], [2, 100], backward=2.0)).startswith("DDP never splits")
    assert zaya1.indivisible(model([1.0, 2.0], [2, 3], backward=2.0)) == ""
