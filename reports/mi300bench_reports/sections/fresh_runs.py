"""Predicted against measured: the fresh runs of the default, the best config and its ablations."""

from collections.abc import Sequence

from mi300bench.schema.config import ConfirmedArm, TunedConfig

from mi300bench_reports import as_text
from mi300bench_reports.charts.lines import StepPoint, predicted_and_measured
from mi300bench_reports.elements import Section, Table

# The label of the config that all others are compared with.
DEFAULT = "default"
# A larger error of a prediction is a doubt about every config that did not run.
LARGEST_ERROR = 0.25
COLUMNS = (
    "config",
    "predicted",
    "measured",
    "error",
    "over the default",
    "verdict",
    "over the best predicted",
    "records",
)


def fresh_runs(tuned: TunedConfig) -> Section | None:
    """Return predicted and measured steps of all that ran, and the worth of each single change."""
    confirmed = tuned.confirmed
    if confirmed is None or not confirmed.sides:
        return None
    points = [
        StepPoint(
            label=_name(arm),
            predicted_s=arm.predicted_s.mid,
            measured_s=arm.measured_s.mid,
            low_s=arm.measured_s.low,
            high_s=arm.measured_s.high,
        )
        for arm in confirmed.sides
    ]
    return Section(
        anchor="against",
        title="Predicted against measured",
        sentences=(
            "Seconds for the default's useful work in a step: what the fits said before, and what "
            "fresh interleaved runs took. "
            "A line that says what the best config lacks is an ablation: over 1 in the last ratio, "
            "that change pays.",
            *_doubts(confirmed.sides),
        ),
        chart=predicted_and_measured(points, alt="Predicted against measured step"),
        table=Table(columns=COLUMNS, rows=tuple(_row(arm) for arm in confirmed.sides)),
        evidence=confirmed.evidence,
    )


def _name(arm: ConfirmedArm) -> str:
    return f"best without {arm.reverts}" if arm.reverts else arm.label


def _row(arm: ConfirmedArm) -> tuple[str, ...]:
    return (
        _name(arm),
        as_text.seconds_range(arm.predicted_s),
        as_text.seconds_range(arm.measured_s),
        f"{_error(arm):+.1%}",
        arm.ratio.as_ratio if arm.ratio.low < arm.ratio.high else "",
        arm.verdict if arm.label != DEFAULT else "",
        "" if arm.over_best is None else arm.over_best.as_ratio,
        " ".join(arm.evidence),
    )


def _error(arm: ConfirmedArm) -> float:
    return arm.predicted_s.mid / arm.measured_s.mid - 1


def _doubts(arms: Sequence[ConfirmedArm]) -> list[str]:
    """Return a doubt where a prediction was far off: then only the measured order counts."""
    worst = max(arms, key=lambda arm: abs(_error(arm)))
    if abs(_error(worst)) <= LARGEST_ERROR:
        return []
    return [
        f"Doubt: the prediction of {worst.label} is off by {_error(worst):+.0%}. "
        "What ran counts; what did not run is ranked by fits that miss so much."
    ]
