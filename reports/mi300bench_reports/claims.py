"""What the linter says of the store's figures, and of the published accounts that ship: the page of claims."""

from collections.abc import Sequence

from mi300bench.lint import files
from mi300bench.lint.judge import judge
from mi300bench.lint.sources import claims_of
from mi300bench.schema.finding import Finding, Verdict
from mi300bench.schema.record import Measurement

from mi300bench_reports.page import Section, Table

COLUMNS = ("verdict", "claim", "rule", "figures", "likely cause", "next step", "source")
MOST_ROWS = 400


def _row(finding: Finding) -> tuple[str, ...]:
    return (
        str(finding.verdict), finding.subject or finding.claim, finding.rule, finding.figures, finding.cause, finding.next_step,
        finding.source,
    )  # fmt: skip


def figures(records: Sequence[Measurement]) -> Section | None:
    """Return what cannot be right, or is doubtful, of the store's own figures; None where nothing could be judged."""
    findings = judge(claims_of(records))
    judged = [f for f in findings if f.verdict is not Verdict.NOT_JUDGED]
    if not judged:
        return None
    bad = [f for f in judged if f.is_bad]
    count = len({f.claim for f in judged})
    said = f"{len(judged)} checks of {count} records against physics, published peaks and their own arithmetic"
    return Section(
        anchor="lint",
        title="Figures that do not add up" if bad else "Figures, checked",
        sentences=(f"{said}: {len(bad)} stand out." if bad else f"{said}: nothing stands out.",),
        table=Table(columns=COLUMNS, rows=tuple(_row(f) for f in bad[:MOST_ROWS])) if bad else None,
        evidence=tuple(dict.fromkeys(f.claim for f in bad)),
    )


def published() -> Section:
    """Return the verdicts on the three published accounts that the reference trainers come from."""
    findings = judge(files.shipped())
    counts = {
        verdict: len({f.claim for f in findings if f.verdict is verdict}) for verdict in Verdict
    }
    return Section(
        anchor="claims",
        title="Published claims, judged",
        sentences=(
            "The accounts that the reference trainers come from, held against the same rules. Nothing here was measured here. "
            + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
            + " (a claim may have several findings).",
        ),
        table=Table(columns=COLUMNS, rows=tuple(_row(f) for f in findings)),
    )
