"""From a decision to the choices of a tuned config: value, default, alternatives, and one sentence why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench.schema.candidate import Candidate, Knob, Option
from mi300bench.schema.config import Alternative, Choice, ChoiceBasis, Confirmed, ConfirmedArm
from mi300bench.schema.model import Interval, Prediction
from mi300bench.stats import Verdict
from mi300bench.tuning.decide import Decision
from mi300bench.tuning.search import WORTH_A_CHANGE, Arm, Predict

# So many alternatives of a knob are written down, the best predicted ones.
MOST_ALTERNATIVES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search and its fresh runs came to."""

    default: Candidate
    best: Candidate  # the best predicted, after dropping what promises too little
    pick: Candidate
    arms: Sequence[Arm]
    decision: Decision | None
    default_fits: bool = True  # into memory
    unconfirmed: str = "not confirmed by fresh runs"  # why a pick has no decision behind it


def _scaled(prediction: Prediction, work: float) -> Interval:
    value = prediction.value
    return Interval(low=value.low / work, mid=value.mid / work, high=value.high / work)


def alternatives(
    knob: Knob, key: str, default: Any, result: SearchResult, predict: Predict
) -> tuple[Alternative, ...]:
    """Return the options of a knob with all else at the default, best predicted first, as values of `key`."""
    rows = []
    for option in knob.options:
        candidate = result.default.with_option(knob.name, option)
        value = option.keys.get(key, default) if len(option.keys) < 2 else option.label
        rows.append(
            Alternative(
                value=value,
                predicted_s=_scaled(predict(candidate), option.work),
                same_as=option.same_as,
            )
        )
    rows.sort(key=lambda row: row.predicted_s.mid)
    return tuple(rows[:MOST_ALTERNATIVES])


def why(knob: Knob, result: SearchResult, predict: Predict) -> str:
    """Return why the knob stands where it does: one sentence."""
    decision, pick = result.decision, result.pick
    chosen = pick.options[knob.name]
    if decision is None:
        return _predicted_why(knob, result, predict)
    if chosen.keys:
        ratio = decision.ratios[decision.pick]
        together = (
            ""
            if len(pick.changed) == 1
            else f" together with {', '.join(n for n in pick.changed if n != knob.name)}"
        )
        said = (
            f"{chosen.label}: a step took {ratio.mid:.3f} of the default's{together} ({ratio.low:.3f} to {ratio.high:.3f}, "
            f"{decision.rounds} fresh interleaved runs each)"
        )
        return said + _ablation(knob, result, decision) + "."
    tried = next((arm for arm in result.arms if arm.candidate.options[knob.name].keys), None)
    if tried is None:
        return _predicted_why(knob, result, predict)
    if decision.pick:
        return f"{tried.candidate.options[knob.name].label} was tried{_ablation(knob, result, decision)}: not worth a change."
    closest = decision.ratios[decision.best]
    return (
        f"On {decision.rounds} fresh interleaved runs each, the best candidate took {closest.mid:.3f} of the default's step "
        f"({closest.low:.3f} to {closest.high:.3f}): not faster beyond noise and 3 %, so the default stays."
    )


def basis_of(knob: Knob, result: SearchResult) -> ChoiceBasis:
    """Return whether fresh runs judged an option of the knob, or fits alone."""
    is_tried = any(arm.candidate.options[knob.name].keys for arm in result.arms)
    is_judged = result.decision is not None and is_tried
    return ChoiceBasis.CONFIRMED if is_judged else ChoiceBasis.PREDICTED


def _ablation(knob: Knob, result: SearchResult, decision: Decision) -> str:
    for place, arm in enumerate(result.arms):
        if arm.reverts == knob.name:
            over = decision.against_best[place]
            return f"; without it {over.mid:.3f} of the best predicted config's step ({over.low:.3f} to {over.high:.3f})"
    return ""


def _predicted_why(knob: Knob, result: SearchResult, predict: Predict) -> str:
    chosen = result.pick.options[knob.name]
    base = _scaled(predict(result.default), 1.0)
    if chosen.keys:
        alone = _scaled(predict(result.default.with_option(knob.name, chosen)), chosen.work)
        said = f"{chosen.label} is predicted to take {alone.mid / base.mid:.3f} of the default's step; {result.unconfirmed}"
        return said + (
            "."
            if result.default_fits
            else ", which do not exist: the default does not fit into memory."
        )
    rest = [option for option in knob.options if option.keys]
    if not rest:
        return "There is nothing else to weigh."

    def beside(option: Option) -> float:
        """Return the option's step over that without it, with all else as in the best predicted config."""
        return _seconds(predict, result.best.with_option(knob.name, option)) / _seconds(
            predict, result.best.without(knob.name)
        )

    best = min(rest, key=beside)
    others = " with the other changes" if result.best.without(knob.name).changed else ""
    return (
        f"The best other option, {best.label}, is predicted to take {beside(best):.3f} of the step without it{others}; "
        f"under {1 - WORTH_A_CHANGE:.3f} it would be tried."
    )


def _seconds(predict: Predict, candidate: Candidate) -> float:
    return predict(candidate).value.mid / candidate.work


def choices_of(
    knob: Knob,
    result: SearchResult,
    predict: Predict,
    *,
    default_of: Callable[[str], Any],
    evidence: Sequence[str],
    doubts: Sequence[str],
) -> Mapping[str, Choice]:
    """Return a choice for the knob's main key, and for each further key that the pick changes with it."""
    keys = list(dict.fromkeys(key for option in knob.options for key in option.keys))
    chosen = result.pick.options[knob.name].keys
    sentence = why(knob, result, predict)
    found = {}
    for place, key in enumerate(keys):
        if place and key not in chosen:
            continue
        found[key] = Choice(
            value=chosen.get(key, default_of(key)),
            default=default_of(key),
            why=sentence,
            evidence=tuple(evidence),
            alternatives=alternatives(knob, key, default_of(key), result, predict)
            if place == 0
            else (),
            doubts=tuple(doubts),
            basis=basis_of(knob, result),
        )
    return found


def confirmed(
    result: SearchResult, predict: Predict, evidence: Mapping[int, Sequence[str]], *, where: str = ""
) -> Confirmed | None:
    """Return what the fresh runs said, side by side; `evidence` has the record ids of each side, `where` what part of a job ran."""
    decision = result.decision
    if decision is None:
        return None
    rows = []
    for place, arm in enumerate(result.arms):
        verdict = decision.verdicts[place]
        rows.append(
            ConfirmedArm(
                label=arm.candidate.label,
                predicted_s=_scaled(predict(arm.candidate), arm.candidate.work),
                measured_s=decision.seconds[place],
                ratio=decision.ratios[place],
                verdict="cannot be told from the default"
                if verdict is Verdict.CANNOT_TELL
                else str(verdict),
                reverts=arm.reverts,
                over_best=decision.against_best[place] if arm.reverts else None,
                evidence=tuple(evidence.get(place, ())),
            )
        )
    return Confirmed(
        candidate=result.arms[decision.best].candidate.label + where,
        default_s=decision.seconds[0],
        tuned_s=decision.seconds[decision.pick],
        ratio=decision.ratios[decision.best],
        runs=decision.rounds,
        verdict=decision.verdict,
        evidence=tuple(identity for ids in evidence.values() for identity in ids),
        sides=tuple(rows),
    )
