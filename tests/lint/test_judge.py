"""Which rules read which claims. What no rule can read is an error, never passed over."""

import pytest
from mi300bench.errors import RecordError
from mi300bench.lint.claim import Claim
from mi300bench.lint.finding import LintVerdict
from mi300bench.lint.judge import KINDS, judge

from tests.lint.judged import findings_on


def test_an_unknown_kind_lists_the_known() -> None:
    with pytest.raises(RecordError, match="magic") as caught:
        judge([Claim(id="row", kind="magic", subject="")])
    assert "throughput" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "figures", "named"),
    [
        ("throughput", {"token_per_second": 3.0}, "token_per_second"),
        ("throughput", {"batch": "many"}, "batch = 'many' is not a number"),
        ("fit", {"device": 3.0}, r"device = 3\.0 is not a text"),
        ("throughput", {"batch": float("nan")}, "batch = nan"),
        ("memory", {"devices": 0.0}, r"devices = 0\.0"),
        ("average", {"values": (1.0, "x")}, "values = 'x'"),
        ("transfer", {"op": "all_sum", "bytes": 1.0, "seconds": 1.0, "algbw": 1.0}, "'all_sum'"),
    ],
    ids=str,
)
def test_a_figure_that_no_rule_can_read_is_named(kind: str, figures: dict, named: str) -> None:
    with pytest.raises(RecordError, match=named) as caught:
        findings_on(kind, **figures)
    assert caught.value.hint


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "statement"])
def test_a_claim_of_too_few_figures_is_not_judged(kind: str) -> None:
    (finding,) = findings_on(kind)
    assert finding.verdict is LintVerdict.NOT_JUDGED and finding.figures


def test_a_statement_is_not_judged_and_its_note_is_the_reason() -> None:
    (finding,) = findings_on("statement", note="no figure")
    assert finding.verdict is LintVerdict.NOT_JUDGED and finding.figures == "no figure"
