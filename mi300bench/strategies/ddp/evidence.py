"""From a store's records to the fits that a choice rests on. What is missing names the command that measures it."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench.errors import RecordError
from mi300bench.fit.gemm import FEWEST_SHAPES, GemmModel, fit_gemm
from mi300bench.fit.link import LinkModel, fit_link
from mi300bench.fit.overlap import OverlapModel, fit_overlap
from mi300bench.fit.step import (
    LANES,
    Factors,
    StepModel,
    Timeline,
    factors_between,
    fit_timeline,
)
from mi300bench.schema.candidate import Option
from mi300bench.schema.record import Measurement, Scalar, World
from mi300bench.schema.trainer import KnobSpec
from mi300bench.store.select import by_point, require_comparable, select
from mi300bench.strategies.ddp.layouts import (
    Layout,
    default_layout,
    layouts_of,
    step_params,
    timeline_params,
)
from mi300bench.strategies.ddp.predictor import DataParallelPredictor, Identity
from mi300bench.strategies.job import Job

# How many all-reduces at once the concurrency of a link is measured with.
PAIR = 2


def groups(
    records: Iterable[Measurement], probe: str, world: World, **params: Scalar
) -> list[Sequence[Measurement]]:
    """Return the passes of each point of a probe in a world, measured without an environment of its own."""
    chosen = (
        r for r in select(records, probe, **params) if r.world == world and not r.environment
    )
    return list(by_point(chosen).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvidence:
    """What the records hold of a job's step.

    options       of each knob whose options were run, those that were
    memory        the memory record of the default config, or None
    readings      of the default's timeline, by name: their mean
    used          the records behind the predictor
    """

    predictor: DataParallelPredictor
    options: Mapping[str, tuple[Option, ...]]
    layouts: tuple[Layout, ...]
    gemm: GemmModel | None
    memory: Measurement | None
    readings: Mapping[str, float]
    notes: tuple[str, ...]
    used: tuple[Measurement, ...]


def link_and_overlap(
    records: Sequence[Measurement], world: World
) -> tuple[LinkModel, OverlapModel, list[Measurement]]:
    """Return the all-reduce curve and the overlap of a world, and their records; `RecordError` says what is missing.

    Gradients travel as float32, so the all-reduce curve is that of float32.
    """
    links = groups(records, "collective.all_reduce", world, dtype="float32", inflight=None)
    pairs = groups(records, "collective.all_reduce", world, dtype="float32", inflight=PAIR)
    # As many all-reduces at once as the backend runs, since that is what disturbs a backward pass.
    lanes = LANES.get(str(links[0][0].conditions.get("backend", "")), 1) if links else 1
    overlaps = groups(records, "overlap", world, inflight=lanes if lanes > 1 else None)
    for points, what, command in (
        (
            links,
            "float32 all_reduce",
            f"mi300bench collectives --ops all_reduce --sizes 8:256M:x4 --ranks {world.ranks}",
        ),
        (
            overlaps,
            "overlap of a collective with products",
            f"mi300bench overlap --inflight {lanes} --ranks {world.ranks}",
        ),
    ):
        if not points:
            raise RecordError(
                f"the store has no {what} {_place(world)}", hint=f"measure it: {command}"
            )
    used = [record for group in (links, pairs, overlaps) for passes in group for record in passes]
    return fit_link(links, pairs=pairs), fit_overlap(overlaps), used


def _place(world: World) -> str:
    return f"among {world.ranks} ranks of {world.threads or 'default'} threads on {world.device}"


def _timeline(
    records: Sequence[Measurement], job: Job, layout: Layout, keys: Mapping[str, Any]
) -> Timeline | None:
    """Return the timeline of exactly this point, or None where it was not measured."""
    wanted = timeline_params(job, layout, keys)
    points = groups(records, f"{job.trainer}.backward", layout.world, **wanted)
    exact = [passes for passes in points if dict(passes[0].params) == wanted]
    return fit_timeline(exact[0]) if exact else None


def gather(
    records: Sequence[Measurement], job: Job, wanted: Mapping[KnobSpec, Sequence[Mapping[str, Any]]]
) -> StepEvidence:
    """Return what `records` say about a job and about the options `wanted` of its knobs.

    The default's own curves must be there; an option without records is left out, with a note.
    """
    default = default_layout(job)
    first = _timeline(records, job, default, {})
    if first is None:
        params = timeline_params(job, default, {})
        point = " ".join(f"{name}={value}" for name, value in params.items())
        raise RecordError(
            f"the store has no gradient timeline of {job.trainer} {point} {_place(job.world)}",
            hint=f"measure it: mi300bench autotune {job.trainer}, "
            f"or sweep run {job.trainer}-timeline",
        )
    by_id = {record.id: record for record in records}
    used = [by_id[identity] for identity in first.evidence]
    notes: list[str] = []
    models: dict[tuple[World, int], StepModel] = {}
    kept: list[Layout] = []
    for layout in layouts_of(job):
        timeline = _timeline(records, job, layout, {})
        if timeline is None:
            notes.append(
                f"micro-batch {layout.micro_batch} on {layout.world.ranks} rank(s) "
                "was not measured and is not weighed"
            )
            continue
        if layout.world.ranks > 1:
            link, overlap, more = link_and_overlap(records, layout.world)
            model = StepModel(timeline=timeline, link=link, overlap=overlap)
            used += more
        else:
            model = StepModel(timeline=timeline)
        models[layout.world, layout.micro_batch] = model
        used += [by_id[identity] for identity in timeline.evidence]
        kept.append(layout)
    effects: dict[Identity, Factors] = {}
    options: dict[str, list[Option]] = {}
    for knob, every in wanted.items():
        for keys in every:
            changed = _timeline(records, job, default, keys)
            option = Option(keys=keys)
            if changed is None:
                text = ", ".join(f"{key}={value}" for key, value in keys.items())
                notes.append(f"{text} was not measured and is not weighed")
                continue
            effects[option.identity] = factors_between(first, changed)
            options.setdefault(knob.name, []).append(option)
            used += [by_id[identity] for identity in changed.evidence]
    require_comparable(used, what="the step model")
    return StepEvidence(
        predictor=DataParallelPredictor(default=default, models=models, effects=effects),
        options={name: tuple(rows) for name, rows in options.items()},
        layouts=tuple(kept),
        gemm=_products(records, job),
        memory=_memory(records, job),
        readings=_readings(job, [by_id[identity] for identity in first.evidence]),
        notes=tuple(notes),
        used=tuple(used),
    )


def _memory(records: Sequence[Measurement], job: Job) -> Measurement | None:
    """Return the memory record of exactly the default: a pick that was measured near the limit tells nothing of it."""
    whole = step_params(job, {})
    rows = select(records, f"{job.trainer}.memory", **whole)
    return next((r for r in rows if r.world == job.world and r.params == whole), None)


def _readings(job: Job, timeline: Sequence[Measurement]) -> dict[str, float]:
    """Return the mean of each reading that the trainer's memory and doubts depend on; 1 where nothing was read."""
    means = {}
    for name in job.spec.readings:
        values = [float(v) for record in timeline for v in record.series.get(name, ())]
        means[name] = statistics.mean(values) if values else 1.0
    return means


def _products(records: Sequence[Measurement], job: Job) -> GemmModel | None:
    """Return the fit of products in the job's world and type, or None where too few shapes were measured."""
    points = groups(
        records,
        "gemm",
        job.world,
        dtype=job.settings.precision,
        inputs="normal",
        cache="cold",
    )
    shapes = {tuple(passes[0].params[name] for name in "mnk") for passes in points}
    return fit_gemm(points) if len(shapes) >= FEWEST_SHAPES else None
