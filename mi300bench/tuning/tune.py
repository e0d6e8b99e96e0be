"""Store -> tuned config of a trainer of ranks: gather, fit, search, confirm on fresh interleaved runs, decide.

The search is cheap (a simulation a candidate); fresh runs are not, so only the default, the best candidate and its
ablations get them.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mi300bench.fit.step import Factors
from mi300bench.measurement import plans
from mi300bench.measurement.measure import measure
from mi300bench.measurement.settings import Settings
from mi300bench.schema.candidate import Candidate, Knob, Option, combinations, default_of
from mi300bench.schema.config import Choice, TunedConfig
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.strategies.ddp import evidence, memory, predictor
from mi300bench.strategies.ddp.evidence import Found
from mi300bench.strategies.ddp.memory import Memory
from mi300bench.strategies.ddp.shapes import factors_of
from mi300bench.strategies.job import Job
from mi300bench.trainers import registry
from mi300bench.tuning import choices
from mi300bench.tuning.confirm import Confirmation, confirm
from mi300bench.tuning.result import Tuned
from mi300bench.tuning.search import Ranked, rank, sides, simplest

# One step of a memory point: what it holds is read off a run before the first sample.
ONCE = Stop(min_samples=1, max_seconds=0.0, warmup_seconds=0.0, min_warmup_calls=1)
MOST_CANDIDATES, MOST_SHAPES = 200_000, 12
QUALITY = "the quality of another shape was not measured: train both on your data and compare the held-out loss"
LOAD = (
    "measured with the experts' load of the first steps, where the fullest expert has {load:.1f} times an even share; "
    "balancing evens it out later, and the order may change"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The knobs of a job with what predicts and limits their candidates."""

    knobs: tuple[Knob, ...]
    default: Candidate
    found: Found
    memory: Memory
    shapes_note: str

    def simulate_seconds(self, candidate: Candidate) -> float:
        """Return the predicted seconds for the default's useful work in a step."""
        return self.found.predictor.simulate(candidate).step_s / candidate.work


def wanted_values(job: Job) -> dict[str, list[Any]]:
    """Return the values of the compute keys to weigh; recomputation only where the largest micro-batch needs it."""
    tokens = job.layout.micro_batch * job.config.data.seq_len
    module = registry.module(job.trainer, "memory")
    largest = max(job.layouts(), key=lambda layout: layout.micro_batch)
    config = job.with_keys(
        {predictor.MICRO_BATCH: largest.micro_batch, predictor.ACCUMULATE: largest.accumulate}
    )
    need = module.need(config, ranks=largest.world.ranks).peak_bytes
    is_short = job.memory_limit is not None and 2 * need > job.memory_limit
    precisions = [name for name in job.precisions if name != job.config.precision]
    values = predictor.compute_options(
        tokens=tokens,
        experts=job.config.compute.experts,
        is_short_of_memory=is_short,
        precisions=precisions,
    )
    return {key: wanted for key, wanted in values.items() if job.weighs(key.rpartition(".")[2])}


def shape_knob(job: Job, found: Found) -> tuple[Knob | None, dict[str, Factors], str]:
    """Return the knob of shapes predicted to be fastest for their useful work, what each does to a step, or why there is none."""
    if not job.weighs("shapes"):
        return None, {}, "shapes are kept"
    if found.gemm is None:
        return (
            None,
            {},
            "too few products were measured to weigh shapes; mi300bench autotune measures them",
        )
    shapes = registry.module(job.trainer, "shapes")
    default = registry.describe(job.trainer, job.config)
    timeline = found.predictor.models[job.world, job.layout.micro_batch].timeline
    useful = shapes.flop_per_token(job.config)
    rows: list[tuple[float, Option, Factors]] = []
    for keys in shapes.variants(job.config, job.param_tolerance):
        config = job.with_keys(keys)
        width = config.model.hidden / job.config.model.hidden
        factors = factors_of(
            found.gemm, default, registry.describe(job.trainer, config), timeline, width_ratio=width
        )
        option = Option(keys=keys, work=shapes.flop_per_token(config) / useful)
        seconds = (
            timeline.forward_s * factors.forward
            + timeline.backward_s * factors.backward
            + timeline.update_s * factors.update
        )
        rows.append((seconds / option.work, option, factors))
    rows.sort(key=lambda row: row[0])
    kept = rows[:MOST_SHAPES]
    knob = Knob(name="shapes", options=(Option(), *(option for _, option, _ in kept)))
    return knob, {option.label: factors for _, option, factors in kept}, ""


def space_of(job: Job, records: Sequence[Measurement]) -> Space:
    """Return the knobs that the records can weigh, with predictor and memory."""
    found = evidence.gather(records, job, wanted_values(job))
    knobs = (
        [predictor.batch_knob(found.layouts)]
        if job.weighs("batch") and len(found.layouts) > 1
        else []
    )
    knobs += [
        predictor.compute_knob(key, values) for key, values in found.compute_keys.items() if values
    ]
    shapes, factors, note = shape_knob(job, found)
    if shapes is not None:
        knobs.append(shapes)
    found = replace(
        found, predictor=replace(found.predictor, shapes=lambda option: factors[option.label])
    )
    if job.world.ranks > 1 and job.weighs("buckets"):
        model = found.predictor.models[job.world, job.layout.micro_batch]
        knobs.append(predictor.bucket_knob(model, torch_version=found.torch_version))
    default = default_of(knobs)
    memory = memory.memory_of(job, found.memory, default, found.expert_load)
    return Space(knobs=tuple(knobs), default=default, found=found, memory=memory, shapes_note=note)


def search(space: Space) -> tuple[list[Ranked], Candidate]:
    """Return the candidates that fit, best predicted first, and the pick: the best without changes that promise too little.

    A world without ranks has no buckets, so those candidates keep the default's.
    """
    simulate, memory = space.found.predictor.simulate, space.memory
    every = [
        candidate
        for candidate in combinations(space.knobs, most=MOST_CANDIDATES)
        if "buckets" not in candidate.changed
        or candidate.world is None
        or candidate.world.ranks > 1
    ]
    # Buckets do not move the memory model: asked once for all of them.
    fits: dict[str, bool] = {}

    def fit(candidate: Candidate) -> bool:
        key = repr(
            [
                (name, candidate.options[name].label)
                for name in candidate.options
                if name != "buckets"
            ]
        )
        if key not in fits:
            fits[key] = memory.fits(candidate)
        return fits[key]

    fitting_ones = [candidate for candidate in every if fit(candidate)]
    if not fitting_ones:
        memory.require_some([c for c in every if "buckets" not in c.changed], memory)
    ranked = rank(fitting_ones, simulate)
    return ranked, simplest(ranked[0].candidate, simulate, fit)


def prove_memory(
    job: Job, space: Space, ranked: list[Ranked], best: Candidate, settings: Settings
) -> tuple[Space, list[Ranked], Candidate, tuple[Measurement, ...]]:
    """Measure what the best candidate holds where the limit is near, and search again until one was seen to fit.

    The model of memory proposes; near the limit a process decides.
    """
    taken: list[Measurement] = []
    while space.memory.is_near(best) and best.label not in space.memory.proven:
        point = plans.point(
            f"{job.trainer}.memory", job.step_params(best.keys), best.world or job.world, stop=ONCE
        )
        settings.say(
            f"measuring the memory of {best.label}: {memory.memory_sentence(space.memory, best)}"
        )
        measured = measure(
            plans.plan("Does the pick fit into memory?", [point], passes=1),
            replace(settings, passes=1),
        )
        good = [record for record in measured.records if record.outcome is Outcome.OK]
        taken += measured.records
        space = replace(space, memory=space.memory.corrected(best, good[0] if good else None))
        ranked, best = search(space)
    return space, ranked, best, tuple(taken)


def step_point(job: Job, candidate: Candidate, stop: Stop) -> Point:
    """Return the point that trains whole steps of a candidate."""
    params = job.step_params({predictor.BUCKETS: predictor.DEFAULT} | candidate.keys)
    return plans.point(f"{job.trainer}.step", params, candidate.world or job.world, stop=stop)


def tune(
    job: Job, records: Sequence[Measurement], settings: Settings, *, confirm_by_runs: bool = True
) -> Tuned:
    """Return the tuned config for `job` from `records`; confirms the pick by fresh runs where asked."""
    space = space_of(job, records)
    ranked, best = search(space)
    memory_records: tuple[Measurement, ...] = ()
    if confirm_by_runs:
        space, ranked, best, memory_records = prove_memory(job, space, ranked, best, settings)
    predictor, default = space.found.predictor, space.default
    notes = [*space.found.notes, *([space.shapes_note] if space.shapes_note else [])]
    base_s, best_s = space.simulate_seconds(default), space.simulate_seconds(best)
    settings.say(
        f"{len(ranked)} candidates fit; the default is predicted to take {base_s:.3f} s a step, "
        f"the best ({best.label}) {best_s:.3f} s"
    )
    wanted = sides(default, best, ranked, predictor.simulate, count=job.candidates)
    fresh = Confirmation(sides=wanted)
    if not space.memory.fits(default):
        notes.append(
            f"the default does not fit, so nothing can be compared with it: {memory.memory_sentence(space.memory, default)}"
        )
    elif confirm_by_runs and len(wanted) > 1:
        fresh = confirm(
            job.trainer,
            wanted,
            lambda candidate, stop: step_point(job, candidate, stop),
            rounds=job.rounds,
            step_s=max(base_s, best_s),
            settings=settings,
        )
    pick = best if fresh.decision is None else fresh.sides[fresh.decision.pick].candidate
    outcome = choices.Outcome(
        default=default,
        best=best,
        pick=pick,
        sides=fresh.sides,
        decision=fresh.decision,
        default_fits=space.memory.fits(default),
    )
    for note in notes:
        settings.say(f"note: {note}")
    everything = (*records, *memory_records, *fresh.records)
    return Tuned(
        config=_config(job, space, outcome, fresh, everything, notes),
        model=predictor.models[job.world, job.layout.micro_batch],
        knobs=space.knobs,
        ranked=ranked,
        sides=fresh.sides,
        decision=fresh.decision,
        records=everything,
        failures=fresh.failures,
        notes=tuple(notes),
    )


def _config(
    job: Job,
    space: Space,
    outcome: choices.Outcome,
    fresh: Confirmation,
    records: Sequence[Measurement],
    notes: Sequence[str],
) -> TunedConfig:
    """Return the tuned config with all its choices."""
    predict = space.found.predictor.predict
    tables = registry.tables(job.trainer, job.config)
    ran = [identity for ids in fresh.evidence.values() for identity in ids]
    made: dict[str, Choice] = {}
    for knob in space.knobs:
        used = list(dict.fromkeys([*_behind(space, knob), *ran]))
        own = [
            str(doubt)
            for o in knob.options
            for doubt in predict(space.default.with_option(knob.name, o)).doubts
        ]
        doubts = list(
            dict.fromkeys(
                [*evidence.doubts(records, used), *own, *_knob_doubts(space, knob, outcome.pick)]
            )
        )
        made |= choices.choices_of(
            knob,
            outcome,
            predict,
            default_of=lambda key: _at(tables, key),
            evidence=used,
            doubts=doubts,
        )
    world, first = outcome.pick.world or job.world, space.found.first
    launch = {predictor.RANKS: world.ranks, predictor.THREADS: world.threads}
    keys = outcome.pick.keys | launch
    return TunedConfig(
        trainer=job.trainer,
        config=registry.tables(job.trainer, job.with_keys(keys)),
        choices=made,
        confirmed=choices.confirmed(outcome, predict, fresh.evidence),
        node=first.node,
        device=first.device,
        device_kind=job.world.device,
        ranks=world.ranks,
        environment=evidence.environment_of(first),
        origin=str(first.origin),
        source=first.source,
        made_by="mi300bench " + " ".join(sys.argv[1:]),
        doubts=(*notes, memory.memory_sentence(space.memory, outcome.pick), *space.memory.doubts()),
    )


def _at(tables: Mapping[str, Any], dotted: str) -> Any:
    part, _, name = dotted.rpartition(".")
    return tables[part][name] if part else tables[name]


def _behind(space: Space, knob: Knob) -> list[str]:
    """Return the records that predict a knob: those of the models its options use, products for shapes, memory for batches."""
    found = space.found
    used = [
        i
        for option in knob.options
        for i in found.predictor.model(space.default.with_option(knob.name, option)).evidence
    ]
    if knob.name == "shapes" and found.gemm is not None:
        used += found.gemm.evidence
    if knob.name in ("batch", "recompute", "loss_chunk"):
        used += space.memory.evidence
    return used


def _knob_doubts(space: Space, knob: Knob, pick: Candidate) -> list[str]:
    """Return the doubts that belong to a knob itself."""
    if knob.name == "shapes" and pick.options["shapes"].keys:
        return [QUALITY]
    if knob.name == "experts":
        return [LOAD.format(load=space.found.expert_load)]
    if knob.name == "buckets":
        job = space.memory.job
        said = predictor.indivisible(
            space.found.predictor.models[job.world, job.layout.micro_batch]
        )
        return [said] if said else []
    if knob.name == "batch":
        return list(space.memory.doubts())
    if knob.name == "precision" and pick.options["precision"].keys:
        return [
            "the quality of another precision was not measured: compare the held-out loss of both"
        ]
    return []
