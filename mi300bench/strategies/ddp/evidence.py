"""From records to the fits behind a choice. Errors name the command that measures the rest."""

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

# The number of concurrent all-reduces with which a link is measured.
PAIR = 2


def groups(
    records: Iterable[Measurement], probe: str, world: World, **params: Scalar
) -> list[Sequence[Measurement]]:
    """Return the passes of each point of a probe in a world, without set environment variables."""
    chosen = (r for r in select(records, probe, **params) if r.world == world and not r.environment)
    return list(by_point(chosen).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvidence:
    """What the records contain about a job's step.

    options       the measured options of each knob whose options are run
    memory        the memory record of the default config, or None
    readings      the means of the default's readings, by name
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
    """Return the all-reduce curve and the overlap of a world, and their records.

    The curve is that of float32, because gradients are float32. `RecordError` names a missing part.
    """
    links = groups(records, "collective.all_reduce", world, dtype="float32", inflight=None)
    pairs = groups(records, "collective.all_reduce", world, dtype="float32", inflight=PAIR)
    # The overlap is measured with as many concurrent all-reduces as the backend runs.
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
                f"the store has no record of {what} {_place(world)}",
                hint=f"measure it: {command}",
            )
    used = [record for group in (links, pairs, overlaps) for passes in group for record in passes]
    return fit_link(links, pairs=pairs), fit_overlap(overlaps), used


def _place(world: World) -> str:
    return f"on {world.ranks} ranks of {world.threads or 'default'} threads ({world.device})"


def _timeline(
    records: Sequence[Measurement], job: Job, layout: Layout, keys: Mapping[str, Any]
) -> Timeline | None:
    """Return the timeline of exactly this point; None if it was not measured."""
    wanted = timeline_params(job, layout, keys)
    points = groups(records, f"{job.trainer}.backward", layout.world, **wanted)
    exact = [passes for passes in points if dict(passes[0].params) == wanted]
    return fit_timeline(exact[0]) if exact else None


def gather(
    records: Sequence[Measurement], job: Job, wanted: Mapping[KnobSpec, Sequence[Mapping[str, Any]]]
) -> StepEvidence:
    """Return what `records` contain about a job and about the options `wanted` of its knobs.

    The records of the default are necessary. An option without records is left out, with a note.
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
                f"not weighed: micro-batch {layout.micro_batch} on {layout.world.ranks} rank(s) "
                "was not measured"
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
                notes.append(f"not weighed: {text} was not measured")
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
    """Return the memory record of the default; None if there is none.

    Records of other candidates, measured near the limit, do not count.
    """
    whole = step_params(job, {})
    rows = select(records, f"{job.trainer}.memory", **whole)
    return next((r for r in rows if r.world == job.world and r.params == whole), None)


def _readings(job: Job, timeline: Sequence[Measurement]) -> dict[str, float]:
    """Return the mean of each reading that the trainer declares; 1 for a reading without values."""
    means = {}
    for name in job.spec.readings:
        values = [float(v) for record in timeline for v in record.series.get(name, ())]
        means[name] = statistics.mean(values) if values else 1.0
    return means


def _products(records: Sequence[Measurement], job: Job) -> GemmModel | None:
    """Return the fit of products in the job's world and precision; None for too few shapes."""
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
