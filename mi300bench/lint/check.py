"""Whether two figures agree, what the likely cause is if they do not, and the finding."""

import math
from collections.abc import Iterable

from mi300bench.lint.claim import Claim
from mi300bench.lint.finding import Finding, LintVerdict

# Two figures agree within this, which allows for rounding.
TOLERANCE = 0.05
# A factor is recognised within this.
RECOGNISED = 0.035
CAUSES = (
    (8.0, "bits taken for bytes, or the figure of eight ranks for that of one"),
    (1000.0, "a prefix off by 1000"),
    (1024.0, "a prefix off by 1024"),
    (1e6, "a prefix off by a million"),
    (1024.0**2, "a prefix off by 1024 x 1024"),
    (2.0, "counted twice or half: a multiply-add as one FLOP, or both directions of a link as one"),
    (4.0, "another element size, such as 4 bytes instead of 1"),
    (1.024, "KiB taken for KB: 1024 for 1000"),
    (1.024**2, "MiB taken for MB"),
    (1.024**3, "GiB taken for GB"),
)


def agree(stated: float, expected: float, tolerance: float = TOLERANCE) -> bool:
    """Return whether two figures agree within a relative tolerance."""
    return expected != 0 and abs(stated / expected - 1) <= tolerance


def cause_of(stated: float, expected: float, others: Iterable[tuple[float, str]] = ()) -> str:
    """Return the usual cause of the factor between two figures, or the factor if none is known.

    `others` are factors with their causes that apply to this claim alone.
    """
    if stated <= 0 or expected <= 0:
        return "one of the figures is zero or negative"
    ratio = stated / expected
    known = [
        (one, cause)
        for factor, cause in (*others, *CAUSES)
        if factor > 0
        for one in (factor, 1 / factor)
    ]
    nearest, cause = min(known, key=lambda pair: abs(math.log(ratio / pair[0])))
    if abs(math.log(ratio / nearest)) < RECOGNISED:
        return cause
    factor_text = f"{ratio:.3g}" if ratio >= 1 else f"1/{1 / ratio:.3g}"
    return f"off by a factor of {factor_text}"


def finding_on(
    claim: Claim,
    verdict: LintVerdict,
    rule: str,
    figures: str,
    *,
    cause: str = "",
    next_step: str = "",
) -> Finding:
    """Return a finding on `claim`; only a wrong or doubtful one keeps its cause and next step."""
    is_bad = verdict in (LintVerdict.WRONG, LintVerdict.DOUBTFUL)
    return Finding(
        claim=claim.id,
        subject=claim.subject,
        verdict=verdict,
        rule=rule,
        figures=figures,
        cause=cause if is_bad else "",
        next_step=next_step if is_bad else "",
        source=claim.source,
    )


def compared(
    claim: Claim,
    rule: str,
    *,
    stated: float,
    expected: float,
    figures: str,
    next_step: str,
    tolerance: float = TOLERANCE,
    cause: str = "",
    others: Iterable[tuple[float, str]] = (),
) -> Finding:
    """Return a sound finding where the figures agree, else a wrong one with the likely cause."""
    if agree(stated, expected, tolerance):
        return finding_on(claim, LintVerdict.SOUND, rule, figures)
    return finding_on(
        claim,
        LintVerdict.WRONG,
        rule,
        figures,
        cause=cause or cause_of(stated, expected, others),
        next_step=next_step,
    )
