"""Predicted against measured: the fresh runs of the default, the best config and its ablations."""

from collections.abc import Sequence

from mi300bench.schema.config import ConfirmedArm, TunedConfig

from mi300bench_reports import as_text
from mi300bench_reports.charts.lines import StepPoint, predicted_and_measured
from mi300bench_reports.elements import Section, Table

# The label of the config that all others are compared with.
DEFAULT = "default"
# A larger prediction error casts doubt on every config that did not run.
LARGEST_ERROR = 0.25
COLUMNS = (
    "config",
    "predicted step",
    "measured step",
    "prediction error",
    "time / default",
    "verdict",
    "time / best predicted",
    "records",
)


def fresh_runs(tuned: TunedConfig) -> Section | None:
    """Return predicted and measured steps of every config that ran, ablations included."""
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
            "Seconds for the useful work of one default step: predicted by the fits, then measured "
            "on fresh interleaved runs. "
            "'best without X' is the best predicted config with X at its default: if its last "
            "ratio is over 1, setting X pays.",
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
        "Trust the configs that ran. Those that did not run are ranked by fits with such errors."
    ]
