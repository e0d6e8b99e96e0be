"""What the linter finds: in the figures of this store, and in the published accounts that ship."""

from collections.abc import Sequence

from mi300bench.lint import files
from mi300bench.lint.finding import Finding, LintVerdict
from mi300bench.lint.judge import judge
from mi300bench.lint.sources import claims_of
from mi300bench.schema.record import Measurement

from mi300bench_reports.elements import Section, Table

COLUMNS = ("verdict", "claim", "rule", "figures", "likely cause", "next step", "source")
MOST_ROWS = 400


def own_figures(records: Sequence[Measurement]) -> Section | None:
    """Return the wrong and doubtful figures of the store; None where nothing could be judged."""
    judged = [f for f in judge(claims_of(records)) if f.verdict is not LintVerdict.NOT_JUDGED]
    if not judged:
        return None
    bad = [finding for finding in judged if finding.is_bad]
    count = len({finding.claim for finding in judged})
    result = f"{len(bad)} findings to look at" if bad else "nothing to look at"
    return Section(
        anchor="lint",
        title="Wrong or doubtful figures" if bad else "Figures checked",
        sentences=(
            f"{len(judged)} checks of {count} records against physics, published peaks and "
            f"arithmetic: {result}.",
        ),
        table=_table(bad[:MOST_ROWS]) if bad else None,
        evidence=tuple(dict.fromkeys(finding.claim for finding in bad)),
    )


def published() -> Section:
    """Return the findings on the published accounts of the reference trainers."""
    findings = judge(files.shipped())
    counts = [
        f"{len({f.claim for f in findings if f.verdict is verdict})} {verdict}"
        for verdict in LintVerdict
    ]
    return Section(
        anchor="claims",
        title="Published claims checked",
        sentences=(
            "The published accounts of the reference trainers, checked by the same rules. Nothing "
            f"in this section was measured here. Number of claims: {', '.join(counts)} "
            "(a claim may have several findings).",
        ),
        table=_table(findings),
    )


def _table(findings: Sequence[Finding]) -> Table:
    return Table(
        columns=COLUMNS,
        rows=tuple(
            (
                str(finding.verdict),
                finding.subject or finding.claim,
                finding.rule,
                finding.figures,
                finding.cause,
                finding.next_step,
                finding.source,
            )
            for finding in findings
        ),
    )
