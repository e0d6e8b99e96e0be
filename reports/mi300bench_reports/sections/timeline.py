"""The gradient timeline: when gradients are ready, and when DDP's buckets are on the wire."""

from collections.abc import Sequence
from typing import Any

from mi300bench.errors import RecordError
from mi300bench.fit.link import fit_link
from mi300bench.fit.overlap import fit_overlap
from mi300bench.fit.packing import Caps
from mi300bench.fit.step import StepModel, fit_timeline
from mi300bench.schema.config import Choice, TunedConfig
from mi300bench.schema.record import Measurement
from mi300bench.store.newest import newest_passes
from mi300bench.units import MIB, format_bytes

from mi300bench_reports import as_text
from mi300bench_reports.charts import bars
from mi300bench_reports.elements import Section, Table

BUCKET = "ddp.bucket_cap_mb"
COLUMNS = ("bucket cap", "buckets", "predicted step", "predicted exposed communication")


def timeline(tuned: TunedConfig, records: Sequence[Measurement]) -> Section | None:
    """Return the timeline behind the bucket choice; None without that choice or its records."""
    choice = tuned.choices.get(BUCKET)
    if choice is None:
        return None
    identities = set(choice.evidence)
    model = _step_model([r for r in records if r.id in identities], tuned.trainer)
    return None if model is None else _section(model, _shown_caps(choice))


def _step_model(evidence: Sequence[Measurement], trainer: str) -> StepModel | None:
    """Return the model that predicted the buckets, fitted again; None where records are gone."""
    by_probe: dict[str, list[Sequence[Measurement]]] = {}
    for passes in newest_passes(evidence):
        by_probe.setdefault(passes[0].probe, []).append(passes)
    backward, all_reduce, overlap = (
        by_probe.get(probe, [])
        for probe in (f"{trainer}.backward", "collective.all_reduce", "overlap")
    )
    if not (backward and all_reduce and overlap):
        return None
    pairs = [passes for passes in all_reduce if "inflight" in passes[0].params]
    singles = [passes for passes in all_reduce if "inflight" not in passes[0].params]
    try:
        return StepModel(
            timeline=fit_timeline(backward[0]),
            link=fit_link(singles, pairs=pairs),
            overlap=fit_overlap(overlap),
        )
    except RecordError:  # records were removed since; the choice still names them
        return None


def _shown_caps(choice: Choice) -> dict[str, Caps]:
    """Return the bucket caps to draw by label: the default, the choice, the best predicted."""
    best: Any = min(choice.alternatives, key=lambda a: a.predicted_s.mid, default=None)
    shown: dict[str, Caps] = {"default": choice.default}
    for caps in (choice.value, *([best.value] if best else [])):
        if caps != choice.default:
            shown.setdefault(f"{caps} MiB", caps)
    return shown


def _section(model: StepModel, shown: dict[str, Caps]) -> Section:
    measured = model.timeline
    ready, total = [(0.0, 0.0)], 0.0
    for moment, size in sorted(zip(measured.ready_s, measured.gradient_bytes, strict=True)):
        total += size / MIB
        ready.append((moment, total))
    simulated = {label: model.simulate(caps) for label, caps in shown.items()}
    lanes = [
        bars.BucketLane(
            label=label, spans=tuple((t.bytes / MIB, t.start_s, t.end_s) for t in step.transfers)
        )
        for label, step in simulated.items()
    ]
    rows = tuple(
        (
            label,
            str(len(step.transfers)),
            as_text.seconds(step.step_s),
            as_text.seconds(step.exposed_s),
        )
        for label, step in simulated.items()
    )
    largest, name = max(zip(measured.gradient_bytes, measured.names, strict=True))
    return Section(
        anchor="timeline",
        title="Gradient timeline and buckets",
        sentences=(
            "Measured with all ranks computing and no communication: "
            f"forward {as_text.seconds(measured.forward_s)}, "
            f"backward {as_text.seconds(measured.backward_s)}, "
            f"update {as_text.seconds(measured.update_s)}. "
            "The buckets are simulated: DDP's packing rule on this timeline.",
            f"The largest gradient is {name} with {format_bytes(largest)}; "
            "DDP never splits a parameter.",
        ),
        chart=bars.timeline(
            ready, measured.backward_s, lanes, alt="Gradient readiness and simulated buckets"
        ),
        table=Table(columns=COLUMNS, rows=rows),
        evidence=measured.evidence,
    )
