"""A node that is not here and that nobody measured: curves computed from published figures, labelled so, with wide intervals.

Each curve is a record of origin `modelled` whose source names the figures, so that search, config and report treat it as any
other and never take it for a measurement. What nobody published stands in from elsewhere, and its text says so.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.hw.facts import DeviceFacts, Fact, device_table
from mi300bench.hw.reference import busbw_among
from mi300bench.measurement import plans
from mi300bench.measurement.settings import Settings
from mi300bench.physics import busbw_factor
from mi300bench.published.assumptions import LATENCY_S, LEAST_SHARE, MOST_SHARE, OVERLAP, STAND_INS
from mi300bench.schema.doubt import Modelled
from mi300bench.schema.model import ModelDescription
from mi300bench.schema.record import Measurement, Origin, Outcome, Series, Work, World, short_hash
from mi300bench.store.writer import RunWriter
from mi300bench.strategies.ddp.predictor import CHUNK, RECOMPUTE, Layout
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh import tuning
from mi300bench.strategies.mesh.job import MeshJob
from mi300bench.strategies.mesh.points import COLLECTIVES, mesh_products
from mi300bench.trainers import registry
from mi300bench.tuning.result import Tuned
from mi300bench.tuning.tune import tune, wanted_values
from mi300bench.units import GIB, MIB

UPDATE_BYTES_PER_PARAMETER = (
    28.0  # AdamW in float32: reads gradient, weight and two moments, writes three of them
)
SIZES = (8, 64 * 1024, MIB, 16 * MIB, 128 * MIB, GIB, 4 * GIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What is published of a device, as a job needs it."""

    facts: DeviceFacts
    peak: float
    memory_bandwidth: float
    all_reduce_busbw: float
    source: str


def _entry(device: str) -> DeviceFacts:
    known = {entry.key: entry for entry in device_table()}
    if device not in known:
        raise PlanError(
            f"nothing is published here of {device!r}", hint=f"one of {', '.join(known)}"
        )
    return known[device]


def kind_of(device: str) -> str:
    """Return ``rocm`` or ``cuda``: the framework's device that a published device is."""
    return "rocm" if _entry(device).arch.startswith("gfx") else "cuda"


def _fact(entry: DeviceFacts, name: str) -> Fact:
    if name not in entry.facts:
        raise PlanError(
            f"no {name} is published of {entry.name}", hint="another device, or measure the node"
        )
    return entry.facts[name]


def _busbw_among(entry: DeviceFacts, ranks: int) -> tuple[float, str]:
    found = busbw_among(entry.key, ranks)
    if found is None:
        raise PlanError(
            f"no busbw of an all_reduce among 2 or {ranks} {entry.name} is published",
            hint="measure the node",
        )
    return found


def published(device: str, job: Job) -> Published:
    """Return the figures of `device` for a job; `PlanError` names what nobody published."""
    entry = _entry(device)
    names = (job.config.precision, "memory_bandwidth")
    facts = [_fact(entry, name) for name in names]
    sources = [f"{name}: {fact.source}" for name, fact in zip(names, facts, strict=True)]
    busbw = 0.0
    if job.world.ranks > 1:
        busbw, said = _busbw_among(entry, job.world.ranks)
        sources.append(f"all_reduce: {said}")
    source = "; ".join([*sources, STAND_INS])
    return Published(
        facts=entry,
        peak=facts[0].value,
        memory_bandwidth=facts[1].value,
        all_reduce_busbw=busbw,
        source=source,
    )


def _record(
    told: Published, probe: str, params: dict[str, Any], world: World, **parts: Any
) -> Measurement:
    point = plans.point(probe, params, world)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return Measurement(
        probe=probe,
        method=point.method,
        params=params,
        outcome=Outcome.OK,
        id=short_hash(["published", told.facts.key, point.key, now]),
        point=point.key,
        run=f"published-{told.facts.key}",
        world=point.world,
        conditions={
            "framework": point.world.framework,
            "framework_version": "",
            "device_arch": told.facts.arch,
            "backend": "nccl",
        },
        doubts=(Modelled(source=told.source),),
        node=f"{told.facts.key}-published",
        device=told.facts.name,
        started_at=now,
        origin=Origin.MODELLED,
        source=f"published figures of {told.facts.name}",
        **parts,
    )


def _timeline(
    job: Job, told: Published, layout: Layout, keys: dict[str, Any], described: ModelDescription
) -> Measurement:
    """Return a step's phases from its FLOP and the update's bytes; gradients come in reverse order, as their FLOP go."""
    flop = (
        registry.module(job.trainer, "shapes").flop_per_token(job.config)
        * layout.micro_batch
        * job.config.data.seq_len
    )
    update_s = described.total_elements * UPDATE_BYTES_PER_PARAMETER / told.memory_bandwidth
    rows = []
    for share in (MOST_SHARE, (LEAST_SHARE * MOST_SHARE) ** 0.5, LEAST_SHARE):
        third = flop / 3 / (share * told.peak)
        again = third if keys.get(RECOMPUTE) == "block" else 0.0
        rows.append((third, 2 * third + again))
    forward_s, backward_s = rows[1]
    tensors = list(reversed(described.parameters))
    total = sum(tensor.elements for tensor in tensors)
    done = list(itertools.accumulate(tensor.elements for tensor in tensors))
    # The embedding is the head as well: its gradient is whole only at the end.
    series: Series = {
        "forward_s": (forward_s,),
        "backward_s": (backward_s,),
        "update_s": (update_s,),
        "parameter": tuple(tensor.name for tensor in tensors),
        "parameter_bytes": tuple(4 * tensor.elements for tensor in tensors),
        "ready_s": tuple(backward_s * part / total for part in done),
    }
    params = job.params(layout, **keys)
    samples = tuple(first + second + update_s for first, second in rows)
    return _record(
        told,
        f"{job.trainer}.backward",
        params,
        layout.world,
        samples=samples,
        series=series,
        work=Work(flop=flop),
    )


def mesh_records_of(device: str, job: MeshJob) -> Iterator[Measurement]:
    """Yield the records that stand in for JAX's measurements of `device`: the products of the default mesh, the collectives."""
    entry = _entry(device)
    peak = _fact(entry, job.config.precision)
    told = Published(
        facts=entry,
        peak=peak.value,
        memory_bandwidth=0.0,
        all_reduce_busbw=0.0,
        source=f"{peak.source}; {STAND_INS}",
    )
    alone = replace(job.world, ranks=1)
    for m, n, k, layout in dict.fromkeys(row[:4] for row in mesh_products(job, job.mesh)):
        flop = 2.0 * m * n * k
        samples = tuple(
            flop / (share * told.peak)
            for share in (MOST_SHARE, (LEAST_SHARE * MOST_SHARE) ** 0.5, LEAST_SHARE)
        )
        params = {"m": m, "n": n, "k": k, "layout": layout, "dtype": job.config.precision}
        yield _record(told, "jax.gemm", params, alone, samples=samples, work=Work(flop=flop))
    for ranks in (n for n in range(2, job.devices + 1) if job.devices % n == 0):
        busbw, said = _busbw_among(entry, ranks)
        link = replace(
            told, source=f"{said}; all_gather taken at the busbw of all_reduce; {STAND_INS}"
        )
        for op in COLLECTIVES:
            for size in SIZES:
                seconds = LATENCY_S + size * busbw_factor(op, ranks) / busbw
                yield _record(
                    link, f"jax.collective.{op}", {"bytes": size, "dtype": "float32"}, replace(job.world, ranks=ranks),
                    samples=(seconds / 1.5, seconds, seconds * 1.5), work=Work(message_bytes=size),
                )  # fmt: skip


def records_of(device: str, job: Job) -> Iterator[Measurement]:
    """Yield the records that stand in for measurements of `device`: timelines, the all-reduce curve, the overlap."""
    told = published(device, job)
    described = registry.describe(job.trainer, job.config)
    for layout in job.layouts():
        yield _timeline(job, told, layout, {}, described)
    for key, values in wanted_values(job).items():
        if key in (CHUNK, RECOMPUTE):
            for value in values:
                yield _timeline(job, told, job.layout, {key: value}, described)
    if job.world.ranks == 1:
        return
    bandwidth = told.all_reduce_busbw / busbw_factor("all_reduce", job.world.ranks)
    for size in SIZES:
        seconds = LATENCY_S + size / bandwidth
        yield _record(
            told, "collective.all_reduce", {"bytes": size, "dtype": "float32"}, job.world,
            samples=(seconds / 1.5, seconds, seconds * 1.5), work=Work(message_bytes=size),
        )  # fmt: skip
    parts = {
        "compute_alone_s": (1.0,),
        "collective_alone_s": (1.0,),
        "compute_beside_s": (OVERLAP,),
        "both_s": (OVERLAP,),
    }
    shape = {
        "bytes": 16 * MIB,
        "m": 4096,
        "n": job.config.model.hidden,
        "k": job.config.model.hidden,
    }
    overlap = shape | {"dtype": job.config.precision}
    yield _record(
        told,
        "overlap",
        overlap,
        job.world,
        samples=(OVERLAP,),
        series=parts,
        work=Work(message_bytes=16 * MIB),
    )


def from_published(device: str, job: Job | MeshJob, settings: Settings) -> Tuned:
    """Return the config for a device that nobody measured; its curves are kept in the store, labelled."""
    records = list(
        mesh_records_of(device, job) if isinstance(job, MeshJob) else records_of(device, job)
    )
    told = records[0]
    header = {
        "question": f"What would published figures say of {told.device}?",
        "plan": "",
        "passes": 1,
        "points": len(records),
    }
    with RunWriter(settings.store, node=told.node, header=header) as writer:
        kept = [replace(record, run=writer.run_id) for record in records]
        for record in kept:
            writer.write(record)
        writer.finish()
    if isinstance(job, MeshJob):
        return tuning.tune(job, kept, settings, confirm_by_runs=False)
    return tune(job, kept, settings, confirm_by_runs=False)
