"""Which rules read which kind of claim, and which figures they read of it."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from mi300bench.errors import RecordError
from mi300bench.lint import peaks, ratios, training, transfer
from mi300bench.lint.check import finding_on
from mi300bench.lint.claim import Claim, Figure
from mi300bench.lint.finding import Finding, LintVerdict


def statement(claim: Claim) -> Iterator[Finding]:
    """Yield that the claim is not judged, with the reason that its note gives."""
    yield finding_on(
        claim,
        LintVerdict.NOT_JUDGED,
        "physics judges figures",
        claim.text("note") or "the claim states no figure",
    )


Rule = Callable[[Claim], Iterator[Finding]]
KINDS: Mapping[str, tuple[Rule, str]] = {
    "transfer": (
        transfer.judge,
        "device bytes seconds op ranks ranks_at_least line_rate algbw busbw bandwidth",
    ),
    "memory_bandwidth": (peaks.memory, "device bandwidth best pattern share bytes seconds"),
    "product": (peaks.product, "device m n k flop dtype rate seconds share"),
    "utilisation": (
        peaks.utilisation,
        "device devices dtype parameters tokens_per_second flop_per_parameter stated mfu",
    ),
    "bound": (peaks.bound, "device dtype seq_len stated"),
    "throughput": (
        training.throughput,
        "tokens_per_second step_seconds batch seq_len tokens_per_step",
    ),
    "memory": (training.memory, "device devices parts total share framework instrument"),
    "state": (training.state, "parameters bytes what likely most_bytes_per_parameter"),
    "scaling": (training.scaling, "device parameters bytes_per_parameter devices"),
    "fit": (training.fit, "device needed_bytes stated likely"),
    "ratio": (ratios.ratio, "stated numerator denominator"),
    "saving": (ratios.saving, "stated before after foreign foreign_from"),
    "average": (ratios.average, "stated values"),
    "bits": (ratios.bits, "stated before after block scale_bits"),
    "published": (ratios.published, "stated published tolerance"),
    "product_shape": (ratios.product_shape, "product dims"),
    "least_k": (ratios.least_k, "stated dims"),
    "buffer": (ratios.buffer, "at best bytes ranks"),
    "full_mesh": (ratios.full_mesh, "ranks of stated"),
    "statement": (statement, ""),
}
WORDS = (
    "device",
    "op",
    "dtype",
    "pattern",
    "framework",
    "instrument",
    "what",
    "likely",
    "foreign_from",
    "note",
)
# Figures that may be zero or negative.
ANY_SIZE = ("stated", "published", "tolerance", "foreign", "values")


def _require_readable(claim: Claim) -> None:
    """Raise `RecordError` for a kind or figure that no rule reads, and for an impossible figure."""
    if claim.kind not in KINDS:
        raise RecordError(
            f"{claim.id}: no rule reads claims of the kind {claim.kind!r}",
            hint=f"one of {', '.join(KINDS)}",
        )
    known = (*KINDS[claim.kind][1].split(), "note")
    for name, value in claim.figures.items():
        if name not in known:
            raise RecordError(
                f"{claim.id}: no rule reads the figure {name} of a {claim.kind}",
                hint=f"known: {', '.join(known)}",
            )
        is_word = name in WORDS or (name == "stated" and claim.kind in ("bound", "fit"))
        if isinstance(value, str) != is_word:
            raise RecordError(
                f"{claim.id}: {name} = {value!r} is not {'a text' if is_word else 'a number'}",
                hint="see docs/method/lint.md",
            )
        if not is_word:
            _require_sizes(claim, name, value)


def _require_sizes(claim: Claim, name: str, value: Figure) -> None:
    for number in value if isinstance(value, tuple) else (value,):
        if (
            isinstance(number, str)
            or not math.isfinite(number)
            or (number <= 0 and name not in ANY_SIZE)
        ):
            raise RecordError(
                f"{claim.id}: {name} = {number!r} is not possible",
                hint="give a finite number over 0, in base units (bytes, seconds, FLOP)",
            )


def judge(claims: Iterable[Claim]) -> tuple[Finding, ...]:
    """Return the findings on `claims` in their order, at least one for each claim.

    Raises `RecordError` for a claim that no rule can read.
    """
    findings: list[Finding] = []
    for claim in claims:
        _require_readable(claim)
        rule, names = KINDS[claim.kind]
        some = list(rule(claim))
        findings += some or [
            finding_on(
                claim,
                LintVerdict.NOT_JUDGED,
                "figures are judged together",
                f"the claim states too few of: {names}",
            )
        ]
    return tuple(findings)


def worst(findings: Iterable[Finding]) -> LintVerdict:
    """Return the verdict on one claim: the worst of the findings on it."""
    order = (LintVerdict.WRONG, LintVerdict.DOUBTFUL, LintVerdict.SOUND, LintVerdict.NOT_JUDGED)
    seen = {finding.verdict for finding in findings}
    return next((verdict for verdict in order if verdict in seen), LintVerdict.NOT_JUDGED)
