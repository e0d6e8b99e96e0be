"""From records to the predictor of a step on a mesh.

The computation of a device comes from the measured step or, without one, from the rates of measured
products. The communication of a mesh comes from the curves of the collectives.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mi300bench import stats
from mi300bench.errors import RecordError
from mi300bench.fit.link import LinkModel, fit_link
from mi300bench.schema.candidate import Candidate, Option
from mi300bench.schema.model import Interval, MeshTraffic
from mi300bench.schema.record import Measurement
from mi300bench.schema.run_settings import Mesh
from mi300bench.schema.trainer import KnobKind, KnobSpec
from mi300bench.store.select import by_point, require_comparable, select
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh.placement import (
    is_virtual,
    mesh_of,
    model_of,
    possible_meshes,
    seen_world,
    step_params,
)
from mi300bench.strategies.mesh.predictor import (
    ComputeShare,
    Identity,
    MeshPredictor,
    Stretch,
)
from mi300bench.strategies.mesh.stages import mesh_products, run_options

# The smallest share of computation in a step measured on several devices, even if the
# predicted communication leaves less.
LEAST_COMPUTE = 0.3


def curves_of(records: Sequence[Measurement]) -> Callable[[str, int], LinkModel]:
    """Return a function that fits the curve of a JAX collective in `records`, once for each.

    It raises `RecordError` for a collective without records.
    """
    known: dict[tuple[str, int], LinkModel] = {}

    def curve(op: str, ranks: int) -> LinkModel:
        if (op, ranks) not in known:
            chosen = [r for r in select(records, f"jax.collective.{op}") if r.world.ranks == ranks]
            if not chosen:
                raise RecordError(
                    f"the store has no record of JAX's {op} among {ranks} devices",
                    hint="measure it: mi300bench autotune lora405b, or mi300bench sweep run jax",
                )
            require_comparable(chosen, what="the curve")
            known[op, ranks] = fit_link(list(by_point(chosen).values()))
        return known[op, ranks]

    return curve


def steps_of(
    records: Sequence[Measurement], job: Job, keys: Mapping[str, Any]
) -> tuple[Measurement, ...]:
    """Return the records of whole steps with `keys` set, in the world that this machine can run."""
    wanted, ranks = step_params(job, keys), seen_world(job).ranks
    return tuple(
        record
        for record in select(records, f"{job.trainer}.step", **wanted)
        if record.params == wanted and record.world.ranks == ranks
    )


def share_of(
    records: Sequence[Measurement], job: Job, wire_s: float
) -> tuple[ComputeShare, Measurement]:
    """Return the computation of a device in the default's step, and the first record behind it.

    It comes from the measured step, minus `wire_s` of predicted communication on several real
    devices. Without such a step it comes from the rates of the measured products.
    """
    batch, precision = job.settings.batch, job.settings.precision
    flop = job.described.flop_per_token * batch.global_batch * batch.seq_len
    seen = steps_of(records, job, {})
    if seen:
        interval = stats.interval_of(seen)
        of_seen = seen[0].work.flop * (job.world.ranks if is_virtual(job) else 1)
        # Under 1 if the batch has fewer sequences than devices.
        run, scale = interval, flop / of_seen
        if job.world.ranks > 1 and not is_virtual(job):
            low = max(interval.low - wire_s, LEAST_COMPUTE * interval.low)
            mid = max(interval.mid - wire_s, low)
            interval = Interval(low=low, mid=mid, high=interval.high)
        mine = Interval(
            low=interval.low * scale, mid=interval.mid * scale, high=interval.high * scale
        )
        return ComputeShare(seconds=mine, evidence=tuple(r.id for r in seen), run=run), seen[0]
    products = select(records, "jax.gemm", dtype=precision)
    if not products:
        preset = job.settings.preset
        raise RecordError(
            f"the store has neither a step of {job.trainer} {preset} nor a {precision} product "
            "of JAX",
            hint=f"measure on the node: mi300bench autotune {job.trainer} --preset {preset}, "
            "or mi300bench sweep run jax",
        )
    require_comparable(products, what="the products")
    seconds = [(record.work.flop, stats.interval_of([record])) for record in products]
    each = recomputed_flop(job) * flop / job.world.ranks
    interval = Interval(
        low=each * min(took.low / work for work, took in seconds),
        mid=each * stats.typical([took.mid / work for work, took in seconds]),
        high=each * max(took.high / work for work, took in seconds),
    )
    return ComputeShare(seconds=interval, evidence=tuple(r.id for r in products)), products[0]


def recomputed_flop(job: Job) -> float:
    """Return the FLOP of the default's step, with recomputation, over its useful FLOP."""
    factor = 1.0
    for knob in job.spec.knobs:
        if knob.flop_factor is not None and knob.computes_least is not None:
            value = job.spec.value_of(job.config, knob.keys[0])
            factor *= knob.flop_factor(knob.computes_least, value)
    return factor


def effects_of(
    records: Sequence[Measurement], job: Job, notes: list[str]
) -> tuple[dict[str, list[Option]], dict[Identity, Stretch]]:
    """Return the options of each knob that can be weighed, and their effect on the computation.

    An option without a measured step is weighed by its FLOP if its knob saves memory, or if no step
    was measured at all. Else it is left out, with a note.
    """
    base = steps_of(records, job, {})
    options: dict[str, list[Option]] = {}
    effects: dict[Identity, Stretch] = {}
    left_out: list[str] = []
    for knob, every in run_options(job).items():
        for keys in every:
            option = Option(keys=keys, work=job.work_of(keys))
            stretch = _measured(records, job, option, base) or _by_flop(
                job, knob, option, is_step_seen=bool(base), notes=notes
            )
            if stretch is None:
                left_out.append(option.label)
                continue
            options.setdefault(knob.name, []).append(option)
            effects[option.identity] = stretch
    if left_out:
        notes.append(f"not weighed, because no step with them was measured: {', '.join(left_out)}")
    return options, effects


def _measured(
    records: Sequence[Measurement], job: Job, option: Option, base: Sequence[Measurement]
) -> Stretch | None:
    """Return the measured effect of an option on the seconds of a step; None without records.

    It is the ratio of seconds per FLOP times the option's work, because ranking divides the seconds
    by the work again.
    """
    seen = steps_of(records, job, option.keys)
    if not base or not seen:
        return None
    require_comparable([*base, *seen], what="the effect of a change")
    changed, before = (stats.interval_of(r).mid / r[0].work.flop for r in (seen, base))
    return changed / before * option.work, tuple(record.id for record in seen)


def _by_flop(
    job: Job, knob: KnobSpec, option: Option, *, is_step_seen: bool, notes: list[str]
) -> Stretch | None:
    """Return the effect of an option from its FLOP; None if its FLOP do not predict its time.

    None also if steps were measured and the knob does not save memory: then it has to be measured.
    """
    if knob.flop_factor is None or (is_step_seen and not knob.saves_memory):
        return None
    ((key, value),) = option.keys.items()
    factor = knob.flop_factor(job.spec.value_of(job.config, key), value)
    if knob.computes_least is not None:
        notes.append(f"{key}={value} was not measured; its cost is predicted from its FLOP")
    return factor, ()


def widths_of(records: Sequence[Measurement], job: Job, notes: list[str]) -> dict[Mesh, Stretch]:
    """Return the seconds of each mesh's products over the default's.

    A mesh whose products were not all measured is left out.
    """
    known = _product_records(records, job)
    seconds: dict[Mesh, Stretch] = {}
    for mesh in possible_meshes(job):
        rows = mesh_products(job, mesh)
        if all(row[:4] in known for row in rows):
            total = sum(
                count * stats.interval_of(known[m, n, k, layout]).mid
                for m, n, k, layout, count in rows
            )
            seconds[mesh] = total, tuple(r.id for row in rows for r in known[row[:4]])
    default = mesh_of(job)
    if default not in seconds:
        if job.world.ranks > 1 and job.weighed(KnobKind.MESH):
            notes.append(
                "the products of each mesh were not measured; narrow products are assumed to be as "
                "fast as whole ones"
            )
        return {}
    base, own = seconds[default]
    return {mesh: (total / base, (*own, *ids)) for mesh, (total, ids) in seconds.items()}


def _product_records(
    records: Sequence[Measurement], job: Job
) -> dict[tuple[Any, ...], tuple[Measurement, ...]]:
    chosen = [
        r for r in select(records, "jax.gemm", dtype=job.settings.precision) if not r.environment
    ]
    return {
        tuple(passes[0].params[name] for name in ("m", "n", "k", "layout")): passes
        for passes in by_point(chosen).values()
    }


def base_predictor(job: Job, records: Sequence[Measurement]) -> tuple[MeshPredictor, Measurement]:
    """Return the predictor of meshes without other changes, and the first record behind it."""

    def traffic(candidate: Candidate) -> MeshTraffic:
        return model_of(job).traffic(job.with_keys(candidate.keys))

    nothing = ComputeShare(seconds=Interval(low=0.0, mid=0.0, high=0.0), evidence=())
    wire = MeshPredictor(
        default=mesh_of(job),
        share=nothing,
        effects={},
        widths={},
        curves=curves_of(records),
        traffic=traffic,
    )
    default = Candidate(options={})
    wire_s = wire.predict(default).value.mid if job.world.ranks > 1 else 0.0
    share, first = share_of(records, job, wire_s)
    return replace(wire, share=share), first
