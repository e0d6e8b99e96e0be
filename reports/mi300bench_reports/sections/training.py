"""Training: how steps scale with devices, and the losses of whole runs."""

from collections.abc import Sequence

from mi300bench import stats
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.store.newest import newest_passes

from mi300bench_reports import as_text
from mi300bench_reports.charts import lines
from mi300bench_reports.elements import Section, Table

# The chart of losses shows at most this many runs.
MOST_CURVES = 6
SCALING_COLUMNS = (
    "step",
    "batch per device x length",
    "devices",
    "step time",
    "efficiency",
    "origin",
    "record",
)
RUN_COLUMNS = ("run", "preset", "steps", "ranks", "step time", "loss", "held-out loss", "record")


def scaling(records: Sequence[Measurement]) -> Section | None:
    """Return how the step of one model scales, where several numbers of devices ran it."""
    groups: dict[tuple[str, ...], list[tuple[Measurement, ...]]] = {}
    for passes in newest_passes(
        r for r in records if r.probe.endswith(".step") and r.world.framework == "jax"
    ):
        first = passes[0]
        batch = float(str(first.params["data.batch"])) / first.world.ranks
        model = f"{first.probe} {first.params['preset']}"
        share = f"{batch:g} x {first.params['data.seq_len']}"
        groups.setdefault((model, share, first.node, first.device), []).append(passes)
    rows: list[tuple[str, ...]] = []
    evidence: list[str] = []
    for (model, share, _, _), group in groups.items():
        if len({passes[0].world.ranks for passes in group}) < 2:
            continue
        group.sort(key=lambda passes: passes[0].world.ranks)
        fewest_s = stats.interval_of(group[0]).mid
        for passes in group:
            first, interval = passes[0], stats.interval_of(passes)
            rows.append(
                (
                    model,
                    share,
                    str(first.world.ranks),
                    as_text.seconds_range(interval),
                    f"{fewest_s / interval.mid:.1%}",
                    str(first.origin),
                    first.id,
                )
            )
            evidence += [record.id for record in passes]
    if not rows:
        return None
    return Section(
        anchor="scaling",
        title="Scaling with devices",
        sentences=(
            "The batch per device stays the same. Efficiency is the step time on the fewest "
            "devices over the step time. Emulated devices share one CPU, so their efficiency "
            "shows the overhead of the program, not how hardware scales.",
        ),
        table=Table(columns=SCALING_COLUMNS, rows=tuple(rows)),
        evidence=tuple(evidence),
    )


def runs(records: Sequence[Measurement]) -> Section | None:
    """Return the training runs with their losses."""
    trained = [r for r in records if r.probe.endswith(".train") and r.outcome is Outcome.OK]
    if not trained:
        return None
    curves = [
        lines.Curve(
            label=f"{record.probe} {record.params.get('preset')} {record.id}",
            x=tuple(range(1, len(record.series["loss"]) + 1)),
            y=tuple(float(value) for value in record.series["loss"]),
        )
        for record in trained[-MOST_CURVES:]
        if record.series.get("loss")
    ]
    return Section(
        anchor="training",
        title="Training runs",
        sentences=(
            "Training loss by step of the newest runs. Held-out loss is on rows that no run "
            "trained on.",
        ),
        chart=lines.losses(curves, alt="Training loss by step") if curves else "",
        table=Table(columns=RUN_COLUMNS, rows=tuple(_run_row(record) for record in trained)),
    )


def _run_row(record: Measurement) -> tuple[str, ...]:
    losses = record.series.get("loss", ())
    held_out = record.series.get("held_out_loss", ("-",))[0]
    return (
        record.probe,
        str(record.params.get("preset")),
        str(len(record.samples)),
        str(record.world.ranks),
        as_text.seconds(stats.seconds_per_call(record)),
        f"{losses[0]:.4f} to {losses[-1]:.4f}",
        f"{held_out:.4f}" if isinstance(held_out, float) else str(held_out),
        record.id,
    )
