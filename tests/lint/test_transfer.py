"""Sizes, times, algbw, busbw and line rates of transfers."""

import pytest
from mi300bench.lint.finding import LintVerdict
from mi300bench.lint.peaks import NORMAL

from tests.lint.judged import findings_on, verdict_on

# What each rank of 8 sends in an all-reduce of 4 GiB.
BUS_BYTES = 4.0 * 2**30 * 1.75


@pytest.mark.parametrize("ranks", [{}, {"ranks": 1.0}])
def test_a_claim_without_ranks_may_have_any_factor_of_its_operation(ranks: dict) -> None:
    figures = {"op": "AllReduce", "bytes": 1e9, "seconds": 1e-2, "algbw": 1e11, **ranks}
    assert verdict_on("transfer", busbw=1.75e11, **figures) is LintVerdict.SOUND
    assert verdict_on("transfer", busbw=8e11, **figures) is LintVerdict.WRONG


def test_what_a_tool_rounds_away_is_not_wrong() -> None:
    figures = {"op": "all_reduce", "ranks": 8.0, "bytes": 64.0, "seconds": 9e-6}
    assert verdict_on("transfer", algbw=0.01e9, busbw=0.01e9, **figures) is LintVerdict.SOUND


@pytest.mark.parametrize(
    ("device", "bus", "verdict"),
    [
        ("h200", 473e9, LintVerdict.SOUND),
        ("h200", 900e9, LintVerdict.WRONG),
        ("mi300x", 473e9, LintVerdict.WRONG),
    ],
)
def test_only_a_reduction_in_the_switch_may_exceed_the_line_rate(
    device: str, bus: float, verdict: LintVerdict
) -> None:
    figures = {"op": "all_reduce", "ranks": 8.0, "bytes": 4.0 * 2**30, "line_rate": 450e9}
    seconds = BUS_BYTES / bus
    assert verdict_on("transfer", device=device, seconds=seconds, **figures) is verdict


@pytest.mark.parametrize(
    ("bus", "verdict"), [(310e9, LintVerdict.SOUND), (120e9, LintVerdict.DOUBTFUL)]
)
def test_a_collective_is_compared_with_published_ones(bus: float, verdict: LintVerdict) -> None:
    figures = {"device": "mi300x", "op": "all_reduce", "ranks": 8.0, "bytes": 4.0 * 2**30}
    findings = findings_on("transfer", seconds=BUS_BYTES / bus, **figures)
    (normal,) = [finding for finding in findings if finding.rule == NORMAL]
    assert normal.verdict is verdict and "ml-engineering" in normal.figures
