"""Ratios and savings against the figures that they come from."""

import pytest
from mi300bench.lint.finding import LintVerdict

from tests.lint.judged import verdict_on


@pytest.mark.parametrize(
    ("stated", "after", "verdict"),
    [
        (0.99, 5.0, LintVerdict.WRONG),  # 1 % remains by the statement, 5 % by the figures
        (0.95, 5.4, LintVerdict.SOUND),
        (0.08, 90.0, LintVerdict.WRONG),
    ],
)
def test_of_a_large_saving_the_remainder_is_compared(
    stated: float, after: float, verdict: LintVerdict
) -> None:
    assert verdict_on("saving", stated=stated, before=100.0, after=after) is verdict


def test_a_saving_that_is_partly_another_method_s_is_doubtful() -> None:
    figures = {"stated": 0.5, "before": 100.0, "after": 50.0}
    assert verdict_on("saving", **figures) is LintVerdict.SOUND
    assert verdict_on("saving", foreign=20.0, **figures) is LintVerdict.DOUBTFUL


def test_a_ratio_an_average_and_bits_follow_from_their_figures() -> None:
    assert verdict_on("ratio", stated=2.0, numerator=4.0, denominator=2.0) is LintVerdict.SOUND
    assert verdict_on("ratio", stated=3.0, numerator=4.0, denominator=2.0) is LintVerdict.WRONG
    assert verdict_on("average", stated=2.0, values=(1.0, 3.0)) is LintVerdict.SOUND
    assert verdict_on("average", stated=3.0, values=(1.0, 3.0)) is LintVerdict.WRONG
    scales = {"scale_bits": 32.0, "block": 16.0}
    assert verdict_on("bits", stated=0.75, before=16.0, after=4.0) is LintVerdict.SOUND
    assert verdict_on("bits", stated=0.75, before=16.0, after=4.0, **scales) is LintVerdict.WRONG


def test_a_small_group_of_a_full_mesh_uses_fewer_links() -> None:
    assert verdict_on("full_mesh", ranks=(2.0,), of=8.0, stated=0.86) is LintVerdict.SOUND
    assert verdict_on("full_mesh", ranks=(2.0, 4.0), of=8.0, stated=0.86) is LintVerdict.DOUBTFUL
