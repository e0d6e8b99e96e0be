"""The choice: verdict, the measured timeline with simulated buckets, predicted against measured, training runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from mi300bench import stats
from mi300bench.errors import RecordError
from mi300bench.fit.link import fit_link
from mi300bench.fit.overlap import fit_overlap
from mi300bench.fit.packing import Caps
from mi300bench.fit.step import StepModel, fit_timeline
from mi300bench.schema.config import Choice, Confirmation, Side, TunedConfig
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.units import MIB, Unit, format_bytes, format_quantity

from mi300bench_reports import figure
from mi300bench_reports.page import (
    Detail,
    Section,
    Table,
    Verdict,
    machine_of,
    params_text,
    passes_of,
)

BUCKET = "ddp.bucket_cap_mb"
# What the side that everything is held against is called.
DEFAULT = "default"
# A prediction this far off is a doubt about all that were not run.
FAR_OFF = 0.25
# So many runs share the chart of losses.
MOST_CURVES = 6
# So many samples of a record are printed.
MOST_SAMPLES = 12


def _range(interval: Interval) -> str:
    low, mid, high = (
        format_quantity(v, Unit.SECOND) for v in (interval.low, interval.mid, interval.high)
    )
    return f"{mid} ({low} to {high})"


def verdict(tuned: TunedConfig) -> Verdict:
    """Return what to set, what it gains and how sure that is."""
    changed = {
        key: choice for key, choice in tuned.choices.items() if choice.value != choice.default
    }
    set_this = ", ".join(f"{key} = {choice.value}" for key, choice in changed.items())
    confirmed = tuned.confirmed
    if confirmed is None:
        return Verdict(
            headline=f"Predicted for {tuned.trainer}, not confirmed"
            if changed
            else f"Nothing predicted to beat {tuned.trainer}'s defaults",
            set_this=set_this or "nothing: the defaults stay",
            gain="not measured",
            certainty="No fresh runs were made: this rests on fitted curves alone.",
        )
    gain = 1 - confirmed.ratio.mid
    bounds = f"{1 - confirmed.ratio.high:.1%} to {1 - confirmed.ratio.low:.1%}"
    pending = [key for key, choice in changed.items() if "not confirm" in choice.why]
    if pending and confirmed.verdict is not Confirmation.FASTER:
        headline = f"Predicted for {tuned.trainer}: {', '.join(pending)}; keep the rest"
        won = f"of these not measured; beside them the best candidate, {confirmed.candidate}, would gain {gain:+.1%} ({bounds})"
    elif confirmed.verdict is Confirmation.FASTER:
        headline, won = (
            f"{tuned.trainer} gets {gain:.1%} faster",
            f"{gain:.1%} of a step ({bounds})",
        )
    else:
        headline = f"Keep the defaults of {tuned.trainer}"
        won = f"none: the best candidate, {confirmed.candidate}, would gain {gain:+.1%} ({bounds}), verdict: {confirmed.verdict}"
    return Verdict(
        headline=headline,
        set_this=set_this or "nothing: the defaults stay",
        gain=won,
        certainty=(
            f"{confirmed.runs} fresh interleaved runs of each side: default {_range(confirmed.default_s)} a step, "
            f"tuned {_range(confirmed.tuned_s)}."
        ),
    )


def sections(records: Sequence[Measurement], tuned: TunedConfig | None) -> list[Section]:
    """Return the sections about the tuned config, drawn from the very records that it names."""
    if tuned is None:
        return []
    found = [decisions(tuned, records)]
    ran = _fresh_runs(tuned)
    found += [ran] if ran is not None else []
    choice = tuned.choices.get(BUCKET)
    if choice is not None:
        evidence = [record for record in records if record.id in set(choice.evidence)]
        model = _model(evidence, tuned.trainer)
        if model is not None:
            found.append(_timeline(model, choice))
    return found


def decisions(tuned: TunedConfig, records: Sequence[Measurement]) -> Section:
    """Return every choice: what, instead of what, why; folded under it alternatives, doubts, records down to their samples."""
    by_id = {record.id: record for record in records}
    rows = []
    details = []
    for key, choice in tuned.choices.items():
        is_kept = choice.value == choice.default
        rows.append(
            (
                key,
                str(choice.value),
                "kept" if is_kept else f"instead of {choice.default}",
                choice.why,
            )
        )
        details.append(_detail(key, choice, by_id))
    return Section(
        anchor="decisions",
        title="What to set and why",
        table=Table(columns=("setting", "value", "", "why"), rows=tuple(rows)),
        details=(
            *(
                [Detail(summary=f"Notes: {len(tuned.doubts)}", sentences=tuned.doubts)]
                if tuned.doubts
                else []
            ),
            *details,
        ),
    )


def _detail(key: str, choice: Choice, by_id: Mapping[str, Measurement]) -> Detail:
    """Return what is behind a choice: alternatives with their predictions, doubts, and each record's own samples."""
    rows = [
        (
            "alternative",
            str(other.value),
            _range(other.predicted_s),
            ", ".join(map(str, other.same_as)),
        )
        for other in choice.alternatives
    ]
    for identity in choice.evidence:
        record = by_id.get(identity)
        if record is None:
            rows.append(("record", identity, "not in this store", ""))
            continue
        samples = " ".join(f"{value:.4g}" for value in record.samples[:MOST_SAMPLES])
        more = (
            f" and {len(record.samples) - MOST_SAMPLES} more"
            if len(record.samples) > MOST_SAMPLES
            else ""
        )
        rows.append(
            (
                "record",
                f"{identity} {record.probe} {params_text(record)}",
                f"{samples} s{more}",
                str(record.origin),
            )
        )
    return Detail(
        summary=f"{key}: {len(choice.alternatives)} alternatives, {len(choice.evidence)} records, {len(choice.doubts)} doubts",
        sentences=tuple(f"Doubt: {doubt}" for doubt in choice.doubts),
        table=Table(columns=("what", "which", "seconds", "same as, or origin"), rows=tuple(rows)),
    )


def _model(evidence: Sequence[Measurement], trainer: str) -> StepModel | None:
    by_probe: dict[str, list[Sequence[Measurement]]] = {}
    for passes in passes_of(evidence):
        by_probe.setdefault(passes[0].probe, []).append(passes)
    pairs: list[Sequence[Measurement]] = [
        p for p in by_probe.get("collective.all_reduce", []) if "inflight" in p[0].params
    ]
    needed = (f"{trainer}.backward", "collective.all_reduce", "overlap")
    if any(probe not in by_probe for probe in needed):
        return None
    try:
        return StepModel(
            timeline=fit_timeline(by_probe[needed[0]][0]),
            link=fit_link([p for p in by_probe[needed[1]] if p not in pairs], pairs=pairs),
            overlap=fit_overlap(by_probe[needed[2]]),
        )
    except RecordError:  # the store was thinned out since; the choice still names its records
        return None


def _lanes(model: StepModel, caps: Caps, label: str) -> figure.Lanes:
    spans = tuple((t.bytes / MIB, t.start_s, t.end_s) for t in model.simulate(caps).transfers)
    return figure.Lanes(label=label, spans=spans)


def _timeline(model: StepModel, choice: Choice) -> Section:
    timeline = model.timeline
    ready, total = [(0.0, 0.0)], 0.0
    for moment, size in sorted(zip(timeline.ready_s, timeline.gradient_bytes, strict=True)):
        total += size / MIB
        ready.append((moment, total))
    best: Any = min(choice.alternatives, key=lambda a: a.predicted_s.mid, default=None)
    shown: dict[str, Any] = {"default": choice.default}
    for value in ([choice.value] if choice.value != choice.default else []) + (
        [best.value] if best else []
    ):
        shown.setdefault(f"{value} MiB", value) if value != choice.default else None
    packings = [_lanes(model, caps, label) for label, caps in shown.items()]
    largest, name = max(zip(timeline.gradient_bytes, timeline.names, strict=True))
    simulated = [(label, model.simulate(caps)) for label, caps in shown.items()]
    rows = tuple(
        (
            label,
            str(len(s.transfers)),
            format_quantity(s.step_s, Unit.SECOND),
            format_quantity(s.exposed_s, Unit.SECOND),
        )
        for label, s in simulated
    )
    return Section(
        anchor="timeline",
        title="When gradients are ready, and when buckets travel",
        sentences=(
            f"Measured without communication, all ranks computing: forward {format_quantity(timeline.forward_s, Unit.SECOND)}, "
            f"backward {format_quantity(timeline.backward_s, Unit.SECOND)}, "
            f"update {format_quantity(timeline.update_s, Unit.SECOND)}. "
            "The buckets below are simulated with DDP's own packing on that timeline.",
            f"The largest gradient is {name} with {format_bytes(largest)}; DDP never splits a parameter.",
        ),
        chart=figure.timeline(
            ready, timeline.backward_s, packings, alt="Gradient readiness and simulated buckets"
        ),
        table=Table(
            columns=("bucket cap", "buckets", "predicted step", "predicted exposed communication"),
            rows=rows,
        ),
        evidence=timeline.evidence,
    )


def _fresh_runs(tuned: TunedConfig) -> Section | None:
    """Return what ran, predicted against measured, and what each change is worth in the best predicted config."""
    confirmed = tuned.confirmed
    if confirmed is None or not confirmed.sides:
        return None
    names = [
        f"best without {side.reverts}" if side.reverts else side.label for side in confirmed.sides
    ]
    rows = tuple(
        (
            name,
            _range(side.predicted_s),
            _range(side.measured_s),
            f"{side.predicted_s.mid / side.measured_s.mid - 1:+.1%}",
            side.ratio.as_ratio if side.ratio.low < side.ratio.high else "",
            side.verdict if side.label != DEFAULT else "",
            "" if side.over_best is None else side.over_best.as_ratio,
            " ".join(side.evidence),
        )
        for name, side in zip(names, confirmed.sides, strict=True)
    )
    columns = (
        "config",
        "predicted",
        "measured",
        "error",
        "over the default",
        "verdict",
        "over the best predicted",
        "records",
    )
    points = [
        (name, side.predicted_s.mid, side.measured_s.mid, side.measured_s.low, side.measured_s.high)
        for name, side in zip(names, confirmed.sides, strict=True)
    ]
    return Section(
        anchor="against",
        title="Predicted against measured",
        sentences=(
            "Seconds for the default's useful work in a step: what the fits said before, and what fresh interleaved runs took. "
            "A line that says what the best config lacks is an ablation: over 1 in the last ratio, that change pays.",
            *_misses(confirmed.sides),
        ),
        chart=figure.against(points, alt="Predicted against measured step"),
        table=Table(columns=columns, rows=rows),
        evidence=confirmed.evidence,
    )


def _misses(sides: Sequence[Side]) -> list[str]:
    """Return a doubt where what ran took something else than the fits said: then only the order that was measured counts."""
    worst = max(sides, key=lambda side: abs(side.predicted_s.mid / side.measured_s.mid - 1))
    error = worst.predicted_s.mid / worst.measured_s.mid - 1
    if abs(error) <= FAR_OFF:
        return []
    said = "What ran counts; what did not run is ranked by fits that miss so much."
    return [f"Doubt: the prediction of {worst.label} is off by {error:+.0%}. {said}"]


def scaling(records: Sequence[Measurement]) -> Section | None:
    """Return how steps of one model scale with devices, where there are steps on several numbers of them."""
    groups: dict[tuple[str, ...], list[Sequence[Measurement]]] = {}
    for passes in passes_of(
        r for r in records if r.probe.endswith(".step") and r.world.framework == "jax"
    ):
        first = passes[0]
        share = float(str(first.params["data.batch"])) / first.world.ranks
        key = (
            first.probe,
            str(first.params["preset"]),
            str(first.params["data.seq_len"]),
            f"{share:g}",
            machine_of([first]),
        )
        groups.setdefault(key, []).append(passes)
    rows: list[tuple[str, ...]] = []
    evidence: list[str] = []
    for (probe, preset, length, part, _), group in groups.items():
        if len({passes[0].world.ranks for passes in group}) < 2:
            continue
        group.sort(key=lambda passes: passes[0].world.ranks)
        least = stats.interval_of(group[0]).mid
        for point in group:
            seconds, first = stats.interval_of(point), point[0]
            rows.append(
                (f"{probe} {preset}", f"{part} x {length}", str(first.world.ranks), _range(seconds),
                 f"{least / seconds.mid:.1%}", str(first.origin), first.id)
            )  # fmt: skip
            evidence += [record.id for record in point]
    if not rows:
        return None
    return Section(
        anchor="scaling",
        title="Scaling with devices",
        sentences=(
            "The same share of the batch on each device; efficiency is the step on the fewest devices over the step. Emulated "
            "devices share one CPU: theirs says what the program costs beside the computation, not how hardware scales.",
        ),
        table=Table(
            columns=("step", "share", "devices", "seconds", "efficiency", "origin", "record"),
            rows=tuple(rows),
        ),
        evidence=tuple(evidence),
    )


def training_runs(records: Sequence[Measurement]) -> Section | None:
    """Return the training runs with their losses."""
    runs = [r for r in records if r.probe.endswith(".train") and r.outcome is Outcome.OK]
    if not runs:
        return None
    rows = []
    for record in runs:
        losses = record.series.get("loss", ())
        held_out = record.series.get("held_out_loss", ("-",))[0]
        seconds = format_quantity(stats.seconds_per_call(record), Unit.SECOND)
        rows.append(
            (record.probe, str(record.params.get("preset")), str(len(record.samples)), str(record.world.ranks), seconds,
             f"{losses[0]:.4f} to {losses[-1]:.4f}", f"{held_out:.4f}" if isinstance(held_out, float) else str(held_out), record.id)
        )  # fmt: skip
    columns = ("run", "preset", "steps", "ranks", "step", "loss", "held-out loss", "record")
    curves = [
        figure.Line(
            label=f"{record.probe} {record.params.get('preset')} {record.id}",
            x=tuple(range(1, len(record.series["loss"]) + 1)),
            y=tuple(float(value) for value in record.series["loss"]),
        )
        for record in runs[-MOST_CURVES:]
        if record.series.get("loss")
    ]
    return Section(
        anchor="training",
        title="Training runs",
        sentences=(
            "Loss by step of the newest runs, as trained; held-out loss is on rows that no run learned from.",
        ),
        chart=figure.losses(curves, alt="Training loss by step") if curves else "",
        table=Table(columns=columns, rows=tuple(rows)),
    )
