"""The usual causes of a factor between two figures."""

import pytest
from mi300bench.lint.check import CAUSES, agree, cause_of


@pytest.mark.parametrize(("factor", "cause"), CAUSES)
def test_a_usual_factor_names_its_cause_both_ways(factor: float, cause: str) -> None:
    assert cause_of(factor, 1.0) == cause_of(1.0, factor) == cause


def test_the_nearest_of_two_causes_wins_and_a_claim_may_have_its_own() -> None:
    by_factor = dict(CAUSES)
    assert cause_of(1000.0 * 1.001, 1.0) == by_factor[1000.0]
    assert cause_of(1024.0 * 0.999, 1.0) == by_factor[1024.0]
    assert cause_of(1.75, 1.0, [(1.75, "busbw")]) == "busbw"


def test_another_factor_is_stated_and_no_figure_has_no_factor() -> None:
    assert "3.2" in cause_of(3.2, 1.0) and "1/3.2" in cause_of(1.0, 3.2)
    assert cause_of(0.0, 1.0)


def test_figures_agree_within_the_tolerance() -> None:
    assert agree(1.049, 1.0) and not agree(1.051, 1.0) and not agree(1.0, 0.0)
    assert agree(1.09, 1.0, 0.1)
