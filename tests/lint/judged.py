"""One claim and what the linter finds."""

from mi300bench.lint.claim import Claim, Figure
from mi300bench.lint.finding import Finding, LintVerdict
from mi300bench.lint.judge import judge, worst


def findings_on(kind: str, **figures: Figure) -> tuple[Finding, ...]:
    """Return the findings on one claim."""
    return judge([Claim(id="row", kind=kind, subject="", figures=figures)])


def verdict_on(kind: str, **figures: Figure) -> LintVerdict:
    """Return the verdict on one claim."""
    return worst(findings_on(kind, **figures))
