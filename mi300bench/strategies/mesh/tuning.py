"""Store -> tuned config of a trainer of one process on a mesh: search, ask the compiler, confirm what can be seen here, decide."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.hw import xla_flags
from mi300bench.measurement.settings import Settings
from mi300bench.schema.candidate import Candidate, Knob, combinations
from mi300bench.schema.config import Choice, TunedConfig
from mi300bench.schema.record import Measurement, Origin
from mi300bench.strategies.ddp import evidence
from mi300bench.strategies.mesh import predictor
from mi300bench.strategies.mesh.evidence import Space, space_of
from mi300bench.strategies.mesh.job import MeshJob
from mi300bench.strategies.mesh.memory import MeshMemory
from mi300bench.strategies.mesh.points import VIRTUAL, layers_of, step_point
from mi300bench.trainers import registry
from mi300bench.tuning import choices, confirm
from mi300bench.tuning.result import Tuned
from mi300bench.tuning.search import Ranked, rank, sides, simplest
from mi300bench.units import MIB, format_bytes

MOST_CANDIDATES, MOST_COMPILED = 100_000, 12
ONE_DEVICE = " (one device's share of the batch)"
LENGTH_DOUBT = "another length cuts documents elsewhere: compare the held-out loss of both"
PRECISION_DOUBT = (
    "the quality of another precision was not measured: compare the held-out loss of both"
)


def search(job: MeshJob, space: Space, memory: MeshMemory) -> tuple[list[Ranked], Candidate]:
    """Return the candidates that fit, best predicted first, and the best without changes that promise too little."""

    def fits(candidate: Candidate) -> bool:
        return job.is_possible(candidate.keys) and memory.fits(candidate)

    simulate = space.predictor.simulate
    every = list(combinations(space.knobs, most=MOST_CANDIDATES))
    fitting = [candidate for candidate in every if fits(candidate)]
    if not fitting:
        possible = [candidate for candidate in every if job.is_possible(candidate.keys)]
        nearest = min(possible, key=memory.held)
        raise PlanError(
            f"no candidate fits: the nearest, {nearest.label}: {memory.sentence(nearest)}",
            hint="more devices, a smaller --preset, --batch or --seq-len, or --memory-limit if it may hold more",
        )
    ranked = rank(fitting, simulate)
    return ranked, simplest(ranked[0].candidate, simulate, fits)


def proven(job: MeshJob, space: Space, memory: MeshMemory) -> tuple[list[Ranked], Candidate]:
    """Return what `search` does, once the compiler has said that the best fits; each refusal is searched around."""
    for _ in range(MOST_COMPILED):
        ranked, best = search(job, space, memory)
        if memory.ask(best) is None or memory.fits(best):
            return ranked, best
    raise PlanError(
        f"none of the {MOST_COMPILED} best candidates fits: {memory.sentence(best)}",
        hint="a smaller --batch or --seq-len, or more devices",
    )


def tune(
    job: MeshJob,
    records: Sequence[Measurement],
    settings: Settings,
    *,
    confirm_by_runs: bool = True,
) -> Tuned:
    """Return the tuned config for `job` from `records`; confirms by fresh runs what can be seen here, where asked."""
    space = space_of(job, records)
    memory = MeshMemory(job, settings)
    ranked, best = proven(job, space, memory)
    memory.ask(space.default)
    predict, default = space.predictor.predict, space.default
    notes = [*space.notes, *([memory.note] if memory.note else [])]
    base_s, best_s = (predict(c).value.mid / c.work for c in (default, best))
    settings.say(
        f"{len(ranked)} candidates fit; the default is predicted to take {base_s:.3f} s a step, "
        f"the best ({best.label}) {best_s:.3f} s"
    )
    visible = _visible(job, best)
    wanted = sides(default, visible, [r for r in ranked if _visible(job, r.candidate) == r.candidate],
                   space.predictor.simulate, count=job.candidates)  # fmt: skip
    fresh = confirm.Confirmation(sides=wanted)
    default_fits = memory.fits(default)
    can_run = default_fits or job.is_virtual
    if not can_run:
        notes.append(
            f"the default does not fit, so nothing can be compared with it: {memory.sentence(default)}"
        )
    elif confirm_by_runs and len(wanted) > 1:
        fresh = confirm.confirm(
            job.trainer,
            wanted,
            lambda candidate, stop: step_point(job, candidate.keys, stop),
            rounds=job.rounds,
            step_s=2 * max(base_s, best_s),
            settings=settings,
        )
    pick = best
    if fresh.decision is not None:
        pick = fresh.sides[fresh.decision.pick].candidate
        if "mesh" in best.options and job.is_virtual:
            pick = pick.with_option("mesh", best.options["mesh"])
            if not memory.fits(
                pick
            ):  # what was slower on one device, but is what makes the mesh fit
                pick = best
    memory.ask(pick)
    for note in notes:
        settings.say(f"note: {note}")
    everything = (*records, *memory.records(), *fresh.records)
    outcome = choices.Outcome(
        default=default,
        best=best,
        pick=pick,
        sides=fresh.sides,
        decision=fresh.decision,
        default_fits=default_fits,
    )
    return Tuned(
        config=_config(job, space, memory, outcome, fresh, everything, notes),
        knobs=space.knobs,
        ranked=ranked,
        sides=fresh.sides,
        decision=fresh.decision,
        records=everything,
        failures=fresh.failures,
        notes=tuple(notes),
    )


def _visible(job: MeshJob, candidate: Candidate) -> Candidate:
    """Return the candidate as far as a run here can show it: without its mesh where devices are virtual."""
    return (
        candidate.without("mesh") if job.is_virtual and "mesh" in candidate.options else candidate
    )


def _config(
    job: MeshJob, space: Space, memory: MeshMemory, outcome: choices.Outcome, fresh: confirm.Confirmation,
    records: Sequence[Measurement], notes: Sequence[str],
) -> TunedConfig:  # fmt: skip
    """Return the tuned config with all its choices."""
    predict, tables = space.predictor.predict, registry.tables(job.trainer, job.config)
    planned = tuple(record.id for record in memory.records())
    ran = tuple(identity for ids in fresh.evidence.values() for identity in ids)
    made: dict[str, Choice] = {}
    for knob in space.knobs:
        unseen = job.is_virtual and knob.name == "mesh"
        mine = replace(outcome, decision=None, unconfirmed=_not_here(job)) if unseen else outcome
        behind = [
            i
            for option in knob.options
            for i in predict(space.default.with_option(knob.name, option)).evidence
        ]
        used = list(
            dict.fromkeys(
                [
                    *behind,
                    *(planned if knob.name in ("mesh", "remat", "batch") else ()),
                    *(() if unseen else ran),
                ]
            )
        )
        doubts = [*evidence.doubts(records, used), *_knob_doubts(job, knob, outcome.pick)]
        made |= choices.choices_of(
            knob,
            mine,
            predict,
            default_of=lambda key: _at(tables, key),
            evidence=used,
            doubts=doubts,
        )
    derived = dict(_launch_choices(job, space, memory, outcome.pick))
    made |= derived
    keys = outcome.pick.keys | {key: choice.value for key, choice in derived.items()}
    first = space.first
    return TunedConfig(
        trainer=job.trainer,
        config=registry.tables(job.trainer, job.with_keys(keys)),
        choices=made,
        confirmed=choices.confirmed(
            outcome,
            space.predictor.predict_alone if job.is_virtual else predict,
            fresh.evidence,
            where=ONE_DEVICE if job.is_virtual else "",
        ),
        node=first.node,
        device=first.device,
        device_kind=job.world.device,
        ranks=job.devices,
        environment=evidence.environment_of(first),
        origin=str(Origin.EMULATED) if job.is_virtual else str(first.origin),
        source=f"{job.devices} {VIRTUAL}" if job.is_virtual else first.source,
        made_by="mi300bench " + " ".join(sys.argv[1:]),
        doubts=(
            *notes,
            memory.sentence(outcome.pick),
            *([_not_here(job)] if job.is_virtual else []),
        ),
    )


def _not_here(job: MeshJob) -> str:
    return f"not confirmable here: {job.devices} virtual devices share one processor, so a mesh was predicted and not run"


def _knob_doubts(job: MeshJob, knob: Knob, pick: Candidate) -> list[str]:
    if knob.name == "mesh" and job.is_virtual:
        return [_not_here(job)]
    if knob.name == "shapes" and pick.options["shapes"].keys:
        return [LENGTH_DOUBT]
    if knob.name == "precision" and pick.options["precision"].keys:
        return [PRECISION_DOUBT]
    return []


def _launch_choices(
    job: MeshJob, space: Space, memory: MeshMemory, pick: Candidate
) -> Iterator[tuple[str, Choice]]:
    """Yield what JAX is told before it starts on a GPU; a CPU has no pool, and its collectives are not joined."""
    if job.world.device == "cpu":
        return
    plan = memory.ask(pick)
    if plan is not None and job.memory_limit is not None:
        bound = memory.held(pick)
        fraction = predictor.memory_fraction(bound, job.memory_limit)
        enough = (
            "JAX's own 0.75 is enough"
            if not fraction
            else f"JAX's own 0.75 is not enough, {fraction:g} is"
        )
        yield predictor.FRACTION, Choice(
            value=fraction, default=0.0, evidence=(plan.id,),
            why=f"The compiled step needs at most {format_bytes(bound)} of {format_bytes(job.memory_limit)}: {enough}.",
            doubts=("the bound is the CPU compiler's: the GPU's may be lower",),
        )  # fmt: skip
    mesh = space.predictor.mesh(pick)
    if mesh.fsdp < 2:
        return
    unknown = xla_flags.unknown(xla_flags.combining(MIB))
    if unknown:
        memory.settings.say(
            f"note: the installed jaxlib does not know {', '.join(unknown)}: combining is left alone"
        )
        return
    link = space.predictor.curves("all_gather", mesh.fsdp)
    layer = layers_of(job, job.with_keys(pick.keys)).weight_bytes / mesh.mp
    chosen = predictor.combine_bytes(link.latency_s, link.bandwidth, layer)
    said = (
        f"An all-gather among {mesh.fsdp} spends a tenth of its time on latency at {format_bytes(chosen)}: up to there joining pays"
        if chosen
        else f"A layer's weights are {format_bytes(layer)}: no size within them is shown by the curve to pay, so XLA's own stays"
    )
    yield predictor.COMBINE, Choice(
        value=chosen, default=0, evidence=link.evidence, why=f"{said}.",
        doubts=("derived from the curve, not run: the compiler joins by its own order as well",),
    )  # fmt: skip


def _at(tables: Any, dotted: str) -> Any:
    part, _, name = dotted.rpartition(".")
    return tables[part][name] if part else tables[name]
