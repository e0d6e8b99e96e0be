"""Agreeing within a tolerance, naming the likely cause of a factor, and making findings."""

import math
from collections.abc import Iterable

from mi300bench.schema.claim import Claim
from mi300bench.schema.finding import Finding, LintVerdict

# Two figures agree within this: what people round away.
TOLERANCE = 0.05
# A factor is recognised within this.
RECOGNISED = 0.035
CAUSES = (
    (8.0, "bits taken for bytes, or eight ranks' figure for one's"),
    (1000.0, "a prefix off by 1000"),
    (1024.0, "a prefix off by 1024"),
    (1e6, "a prefix off by a million"),
    (1024.0**2, "a prefix off by 1024 x 1024"),
    (2.0, "counted twice or half: a multiply-add as one, or both directions of a link as one"),
    (4.0, "another element size, such as 4 bytes for 1"),
    (1.024, "K for k: 1024 for 1000"),
    (1.024**2, "MiB for MB"),
    (1.024**3, "GiB for GB"),
)


def agree(stated: float, expected: float, tolerance: float = TOLERANCE) -> bool:
    """Return whether two figures agree within a relative tolerance."""
    return expected != 0 and abs(stated / expected - 1) <= tolerance


def cause_of(stated: float, expected: float, others: Iterable[tuple[float, str]] = ()) -> str:
    """Return what usually makes a figure off by so much, or by what factor it is off; `others` are factors of this claim alone."""
    if stated <= 0 or expected <= 0:
        return "a figure of no size"
    ratio = stated / expected
    known = [
        (one, said)
        for factor, said in (*others, *CAUSES)
        if factor > 0
        for one in (factor, 1 / factor)
    ]
    nearest, said = min(known, key=lambda pair: abs(math.log(ratio / pair[0])))
    if abs(math.log(ratio / nearest)) < RECOGNISED:
        return said
    return f"a factor of {ratio:.3g}" if ratio >= 1 else f"a factor of 1/{1 / ratio:.3g}"


def found(
    claim: Claim, verdict: LintVerdict, rule: str, figures: str, *, cause: str = "", next_step: str = ""
) -> Finding:
    """Return a finding about `claim`; cause and next step belong to the bad ones alone."""
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
    """Return `sound` where the two agree, else `wrong` with the likely cause."""
    if agree(stated, expected, tolerance):
        return found(claim, LintVerdict.SOUND, rule, figures)
    return found(
        claim,
        LintVerdict.WRONG,
        rule,
        figures,
        cause=cause or cause_of(stated, expected, others),
        next_step=next_step,
    )
