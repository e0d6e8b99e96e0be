"""From a store's records to the fits that a choice rests on. What is missing names the command that measures it."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench.errors import RecordError
from mi300bench.fit.gemm import FEWEST_SHAPES, GemmModel, fit_gemm
from mi300bench.fit.link import LinkModel, fit_link
from mi300bench.fit.overlap import OverlapModel, fit_overlap
from mi300bench.fit.step import LANES, Factors, StepModel, Timeline, factors_between, fit_timeline
from mi300bench.schema.record import Measurement, Scalar, World
from mi300bench.store.select import by_point, require_comparable, select
from mi300bench.strategies.ddp.predictor import Layout, Predictor
from mi300bench.strategies.job import Job

# How many all-reduces at once the concurrency of a link is measured with.
PAIR = 2


def latest(records: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return, for each point, the records of the newest run that has it with a speed."""
    newest: dict[str, str] = {}
    chosen = [record for record in records if record.outcome == "ok"]
    for record in chosen:
        newest[record.point] = max(newest.get(record.point, ""), record.run)
    return tuple(record for record in chosen if record.run == newest[record.point])


def groups(
    records: Iterable[Measurement], probe: str, world: World, **params: Scalar
) -> list[Sequence[Measurement]]:
    """Return the passes of each point of a probe in a world, measured without settings of its own."""
    chosen = (r for r in select(records, probe, **params) if r.world == world and not r.environment)
    return list(by_point(chosen).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the records hold for a job: the predictor, its knobs but for buckets and shapes, and what was left out."""

    predictor: Predictor
    compute_keys: Mapping[str, tuple[Any, ...]]
    layouts: tuple[Layout, ...]
    gemm: GemmModel | None
    memory: Measurement | None
    expert_load: float
    notes: tuple[str, ...]
    torch_version: str
    first: Measurement  # whose node, device and origin the config carries


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
    for found, what, command in (
        (
            links,
            "float32 all-reduce",
            f"mi300bench collectives --ops all_reduce --sizes 8:256M:x4 --ranks {world.ranks}",
        ),
        (
            overlaps,
            "overlap of a collective with products",
            f"mi300bench overlap --inflight {lanes} --ranks {world.ranks}",
        ),
    ):
        if not found:
            raise RecordError(
                f"the store has no {what} {_place(world)}", hint=f"measure it: {command}"
            )
    used = [record for group in (links, pairs, overlaps) for passes in group for record in passes]
    return fit_link(links, pairs=pairs), fit_overlap(overlaps), used


def _place(world: World) -> str:
    return f"among {world.ranks} ranks of {world.threads or 'default'} threads on {world.device}"


def _timeline(
    records: Sequence[Measurement], job: Job, layout: Layout, **keys: Scalar
) -> Timeline | None:
    """Return the timeline of exactly this point, or None where it was not measured."""
    wanted = job.params(layout, **keys)
    exact = [
        g
        for g in groups(records, f"{job.trainer}.backward", layout.world, **wanted)
        if dict(g[0].params) == wanted
    ]
    return fit_timeline(exact[0]) if exact else None


def gather(records: Sequence[Measurement], job: Job, wanted: Mapping[str, Sequence[Any]]) -> Found:
    """Return what `records` say about a job and the values `wanted` of its compute keys.

    The default's own curves must be there; an option without records is left out, with a note.
    """
    first = _timeline(records, job, job.layout)
    if first is None:
        said = " ".join(f"{name}={value}" for name, value in job.params(job.layout).items())
        raise RecordError(
            f"the store has no gradient timeline of {job.trainer} {said} {_place(job.world)}",
            hint=f"measure it: mi300bench autotune {job.trainer}, or sweep run {job.trainer}-timeline",
        )
    by_id = {record.id: record for record in records}
    used = [by_id[identity] for identity in first.evidence]
    notes: list[str] = []
    models: dict[tuple[World, int], StepModel] = {}
    kept: list[Layout] = []
    for layout in job.layouts():
        timeline = _timeline(records, job, layout)
        if timeline is None:
            notes.append(
                f"micro-batch {layout.micro_batch} on {layout.world.ranks} rank(s) was not measured and is not weighed"
            )
            continue
        if layout.world.ranks > 1:
            link, overlap, more = link_and_overlap(records, layout.world)
            models[layout.world, layout.micro_batch] = StepModel(
                timeline=timeline, link=link, overlap=overlap
            )
            used += more
        else:
            models[layout.world, layout.micro_batch] = StepModel(timeline=timeline)
        used += [by_id[identity] for identity in timeline.evidence]
        kept.append(layout)
    effects: dict[tuple[str, Any], Factors] = {}
    for key, values in wanted.items():
        for value in values:
            changed = _timeline(records, job, job.layout, **{key: value})
            if changed is None:
                notes.append(f"{key}={value} was not measured and is not weighed")
                continue
            effects[key, value] = factors_between(first, changed)
            used += [by_id[identity] for identity in changed.evidence]
    require_comparable(used, what="the step model")
    gemm = _products(records, job)
    # Exactly the default's: a pick that an earlier run measured near the limit says nothing of it.
    whole = job.step_params({})
    memory = next(
        (
            r
            for r in select(records, f"{job.trainer}.memory", **whole)
            if r.world == job.world and r.params == whole
        ),
        None,
    )
    # The fullest expert of each block in the records of the default's timeline.
    loads = [float(v) for i in first.evidence for v in by_id[i].series.get("expert_load", ())]
    return Found(
        predictor=Predictor(
            default=job.layout, models=models, effects=effects, shapes=lambda _: Factors()
        ),
        compute_keys={
            key: tuple(v for v in values if (key, v) in effects) for key, values in wanted.items()
        },
        layouts=tuple(kept),
        gemm=gemm,
        memory=memory,
        expert_load=statistics.mean(loads) if loads else 1.0,
        notes=tuple(notes),
        torch_version=str(used[0].conditions.get("framework_version", "0")),
        first=used[0],
    )


def _products(records: Sequence[Measurement], job: Job) -> GemmModel | None:
    """Return the fit of products in the job's world and type, or None where too few shapes were measured."""
    points = groups(
        records, "gemm", job.world, dtype=job.config.precision, inputs="normal", cache="cold"
    )
    shapes = {(g[0].params["m"], g[0].params["n"], g[0].params["k"]) for g in points}
    return fit_gemm(points) if len(shapes) >= FEWEST_SHAPES else None


def environment_of(record: Measurement) -> dict[str, str]:
    """Return the variables under which a record was measured, as far as it tells them."""
    told = str(record.conditions.get("environment", "")).split()
    return dict(part.split("=", 1) for part in told if "=" in part)


def doubts(records: Iterable[Measurement], identities: Iterable[str]) -> tuple[str, ...]:
    """Return the doubts of the records with these ids: one sentence a kind, and how many records share the kind."""
    wanted = set(identities)
    kinds: dict[str, list[str]] = {}
    for record in records:
        if record.id in wanted:
            for doubt in record.doubts:
                kinds.setdefault(doubt.kind, []).append(str(doubt))
    return tuple(
        said[0]
        + (f" (This or alike in {len(said)} of {len(wanted)} records.)" if len(said) > 1 else "")
        for said in kinds.values()
    )
