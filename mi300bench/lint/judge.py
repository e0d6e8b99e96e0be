"""Which rules read which kind of claim."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from mi300bench.errors import RecordError
from mi300bench.lint import peaks, ratios, training, transfer
from mi300bench.lint.check import found
from mi300bench.schema.claim import Claim
from mi300bench.schema.finding import Finding, Verdict


def statement(claim: Claim) -> Iterator[Finding]:
    """Yield that a claim states nothing that physics can judge, with why."""
    yield found(claim, Verdict.NOT_JUDGED, "physics judges figures", claim.text("note") or "no figure is stated")


KINDS: Mapping[str, Callable[[Claim], Iterator[Finding]]] = {
    "transfer": transfer.judge,
    "memory_bandwidth": peaks.memory,
    "product": peaks.product,
    "utilisation": peaks.utilisation,
    "bound": peaks.bound,
    "throughput": training.throughput,
    "memory": training.memory,
    "state": training.state,
    "scaling": training.scaling,
    "fit": training.fit,
    "ratio": ratios.ratio,
    "saving": ratios.saving,
    "average": ratios.average,
    "bits": ratios.bits,
    "published": ratios.published,
    "product_shape": ratios.product_shape,
    "least_k": ratios.least_k,
    "buffer": ratios.buffer,
    "full_mesh": ratios.full_mesh,
    "statement": statement,
}


def judge(claims: Iterable[Claim]) -> tuple[Finding, ...]:
    """Return every finding about `claims`, in their order; `RecordError` for a kind that no rule reads."""
    findings: list[Finding] = []
    for claim in claims:
        if claim.kind not in KINDS:
            raise RecordError(f"{claim.id}: no rule reads the kind {claim.kind!r}", hint=f"one of {', '.join(KINDS)}")
        findings += KINDS[claim.kind](claim) or ()
    return tuple(findings)


def worst(findings: Iterable[Finding]) -> Verdict:
    """Return the verdict on one claim from the findings about it: the gravest."""
    order = (Verdict.WRONG, Verdict.DOUBTFUL, Verdict.SOUND, Verdict.NOT_JUDGED)
    seen = {finding.verdict for finding in findings}
    return next((verdict for verdict in order if verdict in seen), Verdict.NOT_JUDGED)
