"""The choices of the ZAYA1 trainer: so far the gradient buckets of its data-parallel step."""

from collections.abc import Sequence

from mi300bench.fit.packing import Caps
from mi300bench.fit.step import StepModel
from mi300bench.schema.config import Alternative, Choice, Confirmed
from mi300bench.stats import Verdict
from mi300bench.tune.decide import Decision
from mi300bench.tune.search import Ranked
from mi300bench.units import MIB, Unit, format_bytes, format_quantity

KEY = "ddp.bucket_cap_mb"
DEFAULT: Caps = "default"


def caps_text(caps: Caps) -> str:
    """Return caps as a point's parameter: ``default``, ``25``, ``1,50``."""
    if isinstance(caps, str):
        return caps
    return ",".join(f"{cap:g}" for cap in (caps if isinstance(caps, Sequence) else [caps]))


def indivisible(model: StepModel) -> str:
    """Return a sentence where one gradient alone exceeds DDP's default bucket: no cap can split it. Empty otherwise."""
    timeline = model.timeline
    size, name = max(zip(timeline.gradient_bytes, timeline.names, strict=True))
    if size <= 25 * MIB:
        return ""
    place = "last of all" if timeline.names[-1] == name else "before the end"
    return f"DDP never splits a parameter: {name} has a gradient of {format_bytes(size)} that is ready {place}, whatever the cap."


def doubts_of(model: StepModel, ranked: Sequence[Ranked], evidence_doubts: Sequence[str]) -> tuple[str, ...]:
    """Return the doubts of the choice: those of its records, and what buckets cannot change."""
    own = indivisible(model)
    beyond = [str(doubt) for row in ranked for doubt in row.prediction.doubts]
    return tuple(dict.fromkeys([*evidence_doubts, *beyond, *([own] if own else [])]))


def _why(decision: Decision | None, pick: Ranked, default: Ranked) -> str:
    buckets = len(pick.simulated.transfers)
    if decision is None:
        predicted = format_quantity(pick.prediction.value.mid, Unit.SECOND)
        if pick is default:
            return f"No candidate is predicted to beat the default's {predicted} a step beyond the interval."
        return f"Predicted to take {predicted} a step with {buckets} bucket(s); not confirmed by fresh runs."
    if decision.pick == 0:
        closest = decision.ratios[decision.best]
        return (
            f"On {decision.rounds} fresh interleaved runs each, the best candidate took {closest.mid:.3f} of the "
            f"default's step ({closest.low:.3f} to {closest.high:.3f}): not faster beyond noise and 3 %, so the default stays."
        )
    ratio = decision.ratios[decision.pick]
    return (
        f"{buckets} bucket(s): on {decision.rounds} fresh interleaved runs each, a step took {ratio.mid:.3f} of the "
        f"default's ({ratio.low:.3f} to {ratio.high:.3f})."
    )


def predicted_pick(ranked: Sequence[Ranked]) -> Ranked:
    """Return the pick without fresh runs: the best, unless its interval overlaps the default's, which then stays."""
    default = next(row for row in ranked if row.stands_for(DEFAULT))
    best = ranked[0]
    return default if best.prediction.value.overlaps(default.prediction.value) else best


def choice(
    ranked: Sequence[Ranked],
    shortlisted: Sequence[Ranked],
    decision: Decision | None,
    *,
    evidence: Sequence[str],
    doubts: Sequence[str],
) -> Choice:
    """Return the bucket choice with its alternatives and evidence."""
    default = next(row for row in ranked if row.stands_for(DEFAULT))
    pick = predicted_pick(ranked) if decision is None else shortlisted[decision.pick]
    return Choice(
        value=DEFAULT if pick is default else pick.candidate.value,
        default=DEFAULT,
        why=_why(decision, pick, default),
        evidence=tuple(evidence),
        alternatives=tuple(
            Alternative(value=row.candidate.value, predicted_s=row.prediction.value, same_as=row.candidate.same_as)
            for row in ranked
        ),
        doubts=tuple(doubts),
    )


def confirmed(shortlisted: Sequence[Ranked], decision: Decision, evidence: Sequence[str]) -> Confirmed:
    """Return what the fresh runs said, with the candidates that were not picked."""
    return Confirmed(
        candidate=caps_text(shortlisted[decision.best].candidate.value),
        default_s=decision.seconds[0],
        tuned_s=decision.seconds[decision.pick],
        ratio=decision.ratios[decision.best],
        runs=decision.rounds,
        verdict=decision.verdict,
        evidence=tuple(evidence),
        others={
            f"{caps_text(row.candidate.value)} ({_said(decision.verdicts[index])})": decision.seconds[index]
            for index, row in enumerate(shortlisted)
            if index not in (0, decision.pick)
        },
    )


def _said(verdict: Verdict) -> str:
    return "cannot be told from the default" if verdict is Verdict.CANNOT_TELL else str(verdict)
