"""From a store's records to the space of a trainer on a mesh: knobs, and what predicts a step.

What a device computes comes from the step that was seen or, without such a record, from the rates of the measured products;
what a mesh exchanges from the curves of the collectives.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mi300bench import stats
from mi300bench.errors import PlanError, RecordError
from mi300bench.fit.link import LinkModel, fit_link
from mi300bench.schema.candidate import Candidate, Knob, Option, default_of
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement
from mi300bench.store.select import by_point, require_comparable, select
from mi300bench.strategies.mesh import predictor
from mi300bench.strategies.mesh.job import MeshJob
from mi300bench.strategies.mesh.points import (
    layers_of,
    length_options,
    mesh_products,
    wanted_values,
)
from mi300bench.strategies.mesh.predictor import MeshPredictor, Share
from mi300bench.strategies.mesh.traffic import Layers, Mesh
from mi300bench.trainers import registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The knobs of a job with what predicts their candidates."""

    knobs: tuple[Knob, ...]
    default: Candidate
    predictor: MeshPredictor
    notes: tuple[str, ...]
    first: Measurement  # whose node, device and origin the config carries


def curves_of(records: Sequence[Measurement]) -> Callable[[str, int], LinkModel]:
    """Return the curves of the JAX collectives in `records`, fitted once each; `RecordError` names one that is missing."""
    known: dict[tuple[str, int], LinkModel] = {}

    def curve(op: str, ranks: int) -> LinkModel:
        if (op, ranks) not in known:
            chosen = [r for r in select(records, f"jax.collective.{op}") if r.world.ranks == ranks]
            if not chosen:
                raise RecordError(
                    f"the store has no {op} among {ranks} devices from JAX",
                    hint="mi300bench autotune lora405b, or sweep run jax",
                )
            require_comparable(chosen, what="the curve")
            known[op, ranks] = fit_link(list(by_point(chosen).values()))
        return known[op, ranks]

    return curve


def _steps(
    records: Sequence[Measurement], job: MeshJob, keys: dict[str, Any]
) -> tuple[Measurement, ...]:
    wanted = job.step_params(keys)
    return tuple(
        r
        for r in select(records, f"{job.trainer}.step", **wanted)
        if r.params == wanted and r.world.ranks == job.seen_world.ranks
    )


def _product_seconds(
    records: Sequence[Measurement], job: MeshJob
) -> dict[tuple[int, int, int, str], Sequence[Measurement]]:
    found = by_point(
        [r for r in select(records, "jax.gemm", dtype=job.config.precision) if not r.environment]
    ).values()
    return {
        (p.params["m"], p.params["n"], p.params["k"], p.params["layout"]): g
        for g in found
        for p in g[:1]
    }  # type: ignore[misc]


def share_of(
    records: Sequence[Measurement], job: MeshJob, wire_s: float
) -> tuple[Share, Measurement]:
    """Return what a device computes in the default's step, and the record whose place the config carries.

    From the step itself where it was seen (on several real devices less what communication is predicted to show), else from the
    rates of the measured products.
    """
    flop = (
        registry.module(job.trainer, "shapes").flop_per_token(job.config)
        * job.config.data.batch
        * job.config.data.seq_len
    )
    seen = _steps(records, job, {})
    if seen:
        interval = stats.interval_of(seen)
        of_seen = seen[0].work.flop * (job.devices if job.is_virtual else 1)
        run, scale = (
            interval,
            flop / of_seen,
        )  # under 1 where the batch is too small to give every device a sequence
        if job.devices > 1 and not job.is_virtual:
            low = max(interval.low - wire_s, 0.3 * interval.low)
            interval = Interval(low=low, mid=max(interval.mid - wire_s, low), high=interval.high)
        mine = Interval(
            low=interval.low * scale, mid=interval.mid * scale, high=interval.high * scale
        )
        return Share(seconds=mine, evidence=tuple(r.id for r in seen), run=run), seen[0]
    products = select(records, "jax.gemm", dtype=job.config.precision)
    if not products:
        raise RecordError(
            f"the store has neither a step of {job.trainer} {job.config.preset} nor a {job.config.precision} product of JAX",
            hint=f"measure on the node: mi300bench autotune {job.trainer} --preset {job.config.preset}, or sweep run jax",
        )
    require_comparable(products, what="the products")
    seconds = [(r.work.flop, stats.interval_of([r])) for r in products]
    again = predictor.AGAIN[job.config.compute.remat] * flop / job.devices
    interval = Interval(
        low=again * min(spent.low / work for work, spent in seconds),
        mid=again * stats.typical([spent.mid / work for work, spent in seconds]),
        high=again * max(spent.high / work for work, spent in seconds),
    )
    return Share(seconds=interval, evidence=tuple(r.id for r in products)), products[0]


def effects_of(
    records: Sequence[Measurement], job: MeshJob, notes: list[str]
) -> dict[tuple[str, Any], Any]:
    """Return by how much each single change stretches the computation; a change that nobody ran is left out with a note."""
    base = _steps(records, job, {})
    found: dict[tuple[str, Any], tuple[float, tuple[str, ...]]] = {}
    left: list[str] = []
    for key, values in wanted_values(job).items():
        for value in values:
            seen = _steps(records, job, {key: value}) if job.is_possible({key: value}) else ()
            if base and seen:
                require_comparable([*base, *seen], what="the effect of a change")
                per_flop = [stats.interval_of(r).mid / r[0].work.flop for r in (seen, base)]
                found[key, value] = per_flop[0] / per_flop[1], tuple(r.id for r in seen)
            elif key == predictor.REMAT:
                found[key, value] = (
                    predictor.AGAIN[value] / predictor.AGAIN[job.config.compute.remat],
                    (),
                )
                notes.append(
                    f"{key}={value}: its cost is the FLOP that it computes again, not measured"
                )
            elif key == predictor.ACCUMULATE or (key == predictor.CHUNK and not base):
                found[key, value] = 1.0, ()  # they are for memory
            else:
                left.append(f"{key.rpartition('.')[2]} {value}")
    if left:
        notes.append(f"not weighed, because no step was run with them: {', '.join(left)}")
    return found


def widths_of(records: Sequence[Measurement], job: MeshJob, notes: list[str]) -> dict[Mesh, Any]:
    """Return by how much each mesh's products take longer than the default's, where all of them were measured."""
    known = _product_seconds(records, job)
    seconds: dict[Mesh, tuple[float, tuple[str, ...]]] = {}
    for mesh in job.possible_meshes():
        rows = mesh_products(job, mesh)
        if all(row[:4] in known for row in rows):
            total = sum(
                count * stats.interval_of(known[m, n, k, layout]).mid
                for m, n, k, layout, count in rows
            )
            seconds[mesh] = total, tuple(r.id for row in rows for r in known[row[:4]])
    if job.mesh not in seconds:
        if job.devices > 1 and job.weighs("mesh"):
            notes.append(
                "the products of each mesh were not measured: narrower ones are taken to be as fast as whole ones"
            )
        return {}
    base, own = seconds[job.mesh]
    return {mesh: (total / base, (*own, *ids)) for mesh, (total, ids) in seconds.items()}


def base_of(job: MeshJob, records: Sequence[Measurement]) -> tuple[MeshPredictor, Measurement]:
    """Return the predictor of meshes alone, without other changes, and the record whose place a config carries."""
    curves = curves_of(records)

    def layers(candidate: Candidate) -> Layers:
        return layers_of(job, job.with_keys(candidate.keys))

    free = Share(seconds=Interval(low=0.0, mid=0.0, high=0.0), evidence=())
    wire = MeshPredictor(
        default=job.mesh, share=free, effects={}, widths={}, curves=curves, layers_of=layers
    )
    nothing = Candidate(options={})
    wire_s = wire.predict(nothing).value.mid if job.devices > 1 else 0.0
    share, first = share_of(records, job, wire_s)
    return replace(wire, share=share), first


def space_of(job: MeshJob, records: Sequence[Measurement]) -> Space:
    """Return the knobs that the records can weigh, and their predictor."""
    notes: list[str] = []
    base, first = base_of(job, records)
    effects = effects_of(records, job, notes)
    knobs: list[Knob] = []
    if job.devices > 1 and job.weighs("mesh"):
        knobs.append(predictor.mesh_knob(job.possible_meshes(), job.mesh))
    for key in wanted_values(job):
        values = [v for (name, v) in effects if name == key]
        if values:
            name = "batch" if key == predictor.ACCUMULATE else key.rpartition(".")[2]
            knobs.append(
                Knob(
                    name=name, options=(Option(), *(Option(keys={key: value}) for value in values))
                )
            )
    if lengths := length_options(job):
        seen = [(option, _steps(records, job, dict(option.keys))) for option in lengths]
        whole = _steps(records, job, {})
        kept = [(option, rows) for option, rows in seen if rows and whole]
        for option, rows in kept:
            # Seconds, not seconds a FLOP: ranking divides them by the candidate's work itself.
            slower = (
                stats.interval_of(rows).mid
                / rows[0].work.flop
                / (stats.interval_of(whole).mid / whole[0].work.flop)
            )
            ratio = slower * _work(job, dict(option.keys))
            effects[predictor.LENGTH, option.keys[predictor.LENGTH]] = (
                ratio,
                tuple(r.id for r in rows),
            )
        if kept:
            options = [replace(option, work=_work(job, dict(option.keys))) for option, _ in kept]
            knobs.append(Knob(name="shapes", options=(Option(), *options)))
    predictor = replace(base, effects=effects, widths=widths_of(records, job, notes))
    if not knobs:
        raise PlanError("nothing is left to weigh", hint="other knobs with --only, or more devices")
    return Space(
        knobs=tuple(knobs),
        default=default_of(knobs),
        predictor=predictor,
        notes=tuple(notes),
        first=first,
    )


def _work(job: MeshJob, keys: dict[str, Any]) -> float:
    """Return the useful FLOP of a step with `keys` over the default's; tokens stay, attention sees more or fewer of them."""
    flop = registry.module(job.trainer, "shapes").flop_per_token
    return float(flop(job.with_keys(keys)) / flop(job.config))
