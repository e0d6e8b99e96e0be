"""The choices of a tuned config: value, default, alternatives, and one sentence why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench.schema.candidate import Candidate, Knob, Option
from mi300bench.schema.config import Alternative, Choice, ChoiceBasis, Confirmed, ConfirmedArm
from mi300bench.schema.model import Interval, Prediction
from mi300bench.stats import Verdict
from mi300bench.tuning.decide import Decision
from mi300bench.tuning.search import WORTH_A_CHANGE, Arm, Predict

# The most alternatives of a knob in a config, best predicted first.
MOST_ALTERNATIVES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search and of its fresh runs.

    best         the best predicted candidate, without changes whose gain is too small
    unconfirmed  why no fresh runs judged the pick, where `decision` is None
    """

    default: Candidate
    best: Candidate
    pick: Candidate
    arms: Sequence[Arm]
    decision: Decision | None
    unconfirmed: str = "not confirmed by fresh runs"


def _scaled(prediction: Prediction, work: float) -> Interval:
    value = prediction.value
    return Interval(low=value.low / work, mid=value.mid / work, high=value.high / work)


def alternatives(
    knob: Knob, key: str, default: Any, result: SearchResult, predict: Predict
) -> tuple[Alternative, ...]:
    """Return the options of a knob as values of `key`, best predicted first.

    All other knobs are at their default.
    """
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
    """Return why the knob has its value, as one sentence."""
    decision, pick = result.decision, result.pick
    chosen = pick.options[knob.name]
    if decision is None:
        return _predicted_why(knob, result, predict)
    if chosen.keys:
        ratio = decision.ratios[decision.pick]
        others = ", ".join(name for name in pick.changed if name != knob.name)
        together = f" together with {others}" if others else ""
        return (
            f"{chosen.label}: a step took {ratio.mid:.3f} of the default's{together} "
            f"({ratio.low:.3f} to {ratio.high:.3f}, {decision.rounds} fresh interleaved runs each)"
            f"{_ablation(knob, result, decision)}."
        )
    tried = next((arm for arm in result.arms if arm.candidate.options[knob.name].keys), None)
    if tried is None:
        return _predicted_why(knob, result, predict)
    if decision.pick:
        return (
            f"{tried.candidate.options[knob.name].label} had fresh runs"
            f"{_ablation(knob, result, decision)}. Its gain is too small to change the default."
        )
    closest = decision.ratios[decision.best]
    return (
        f"On {decision.rounds} fresh interleaved runs each, the best candidate took "
        f"{closest.mid:.3f} of the default's step ({closest.low:.3f} to {closest.high:.3f}): "
        "not faster beyond noise and 3 %, so the default stays."
    )


def basis_of(knob: Knob, result: SearchResult) -> ChoiceBasis:
    """Return whether fresh runs judged an option of the knob, or fits alone."""
    is_tried = any(arm.candidate.options[knob.name].keys for arm in result.arms)
    is_judged = result.decision is not None and is_tried
    return ChoiceBasis.CONFIRMED if is_judged else ChoiceBasis.PREDICTED


def _ablation(knob: Knob, result: SearchResult, decision: Decision) -> str:
    """Return what the ablation of a knob took; nothing where it had no fresh runs."""
    for index, arm in enumerate(result.arms):
        if arm.reverts == knob.name:
            over = decision.against_best[index]
            return (
                f"; without it a step took {over.mid:.3f} of the best predicted config's "
                f"({over.low:.3f} to {over.high:.3f})"
            )
    return ""


def _predicted_why(knob: Knob, result: SearchResult, predict: Predict) -> str:
    """Return what the fits predict for the knob's value, or for its best other option."""
    chosen = result.pick.options[knob.name]
    base = _scaled(predict(result.default), 1.0)
    if chosen.keys:
        alone = _scaled(predict(result.default.with_option(knob.name, chosen)), chosen.work)
        return (
            f"{chosen.label} is predicted to take {alone.mid / base.mid:.3f} of the default's "
            f"step; {result.unconfirmed}."
        )
    rest = [option for option in knob.options if option.keys]
    if not rest:
        return "This knob has no other option here."

    def relative(option: Option) -> float:
        """Return the option's step over that without it, all else as in the best candidate."""
        return _seconds(predict, result.best.with_option(knob.name, option)) / _seconds(
            predict, result.best.without(knob.name)
        )

    best = min(rest, key=relative)
    others = " with the other changes" if result.best.without(knob.name).changed else ""
    return (
        f"The best other option, {best.label}, is predicted to take {relative(best):.3f} of the "
        f"step without it{others}; under {1 - WORTH_A_CHANGE:.3f} it would be tried."
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
    """Return a choice for the knob's first key, and for each other key that the pick changes."""
    keys = list(dict.fromkeys(key for option in knob.options for key in option.keys))
    chosen = result.pick.options[knob.name].keys
    sentence = why(knob, result, predict)
    choices = {}
    for index, key in enumerate(keys):
        if index and key not in chosen:
            continue
        choices[key] = Choice(
            value=chosen.get(key, default_of(key)),
            default=default_of(key),
            why=sentence,
            evidence=tuple(evidence),
            alternatives=alternatives(knob, key, default_of(key), result, predict)
            if index == 0
            else (),
            doubts=tuple(doubts),
            basis=basis_of(knob, result),
        )
    return choices


def confirmed(
    result: SearchResult,
    predict: Predict,
    evidence: Mapping[int, Sequence[str]],
    *,
    where: str = "",
) -> Confirmed | None:
    """Return the fresh runs of all arms; None without a decision.

    `evidence` has the record ids of each arm. `where` names the part of the job that ran.
    """
    decision = result.decision
    if decision is None:
        return None
    rows = []
    for index, arm in enumerate(result.arms):
        verdict = decision.verdicts[index]
        rows.append(
            ConfirmedArm(
                label=arm.candidate.label,
                predicted_s=_scaled(predict(arm.candidate), arm.candidate.work),
                measured_s=decision.seconds[index],
                ratio=decision.ratios[index],
                verdict="cannot be told from the default"
                if verdict is Verdict.CANNOT_TELL
                else str(verdict),
                reverts=arm.reverts,
                over_best=decision.against_best[index] if arm.reverts else None,
                evidence=tuple(evidence.get(index, ())),
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
