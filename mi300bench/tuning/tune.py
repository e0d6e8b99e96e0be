"""From records to a tuned config, for every trainer: space, search, memory, fresh runs, decision.

The search only predicts steps, which is cheap. Fresh runs are not, so only the default, the best
candidate and its ablations get them.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace

from mi300bench.errors import PlanError
from mi300bench.measurement.settings import Settings
from mi300bench.schema.candidate import Candidate, Knob, combinations
from mi300bench.schema.config import Choice, TunedConfig
from mi300bench.schema.record import Measurement
from mi300bench.schema.trainer import KnobKind
from mi300bench.strategies.base import Space
from mi300bench.strategies.job import Job
from mi300bench.strategies.table import strategy_of
from mi300bench.tuning import choices
from mi300bench.tuning.confirm import FreshRuns, confirm
from mi300bench.tuning.doubts import doubts_of
from mi300bench.tuning.result import Tuned
from mi300bench.tuning.search import Ranked, arms, rank, simplest

MOST_CANDIDATES = 200_000
# These knobs decide how much memory a rank needs, so the doubts of the memory check are theirs too.
LAYOUTS = (KnobKind.LAYOUT, KnobKind.MESH)
# The most searches after the memory check refused the best candidate.
MOST_SETTLED = 12
NOT_CONFIRMED = "not confirmed by fresh runs"
NO_BASELINE = "not confirmed: the default does not fit into memory, so there is no baseline"


def search(job: Job, space: Space) -> tuple[list[Ranked], Candidate]:
    """Return the candidates that fit, best predicted first, and the best without its small changes.

    The memory of candidates that differ only in knobs without effect on it is computed once.
    """
    strategy = strategy_of(job)
    fits_by_memory: dict[str, bool] = {}

    def fits_in_memory(candidate: Candidate) -> bool:
        labels = [
            (name, option.label)
            for name, option in candidate.options.items()
            if job.affects_memory(name)
        ]
        key = repr(labels)
        if key not in fits_by_memory:
            fits_by_memory[key] = space.memory.fits(candidate)
        return fits_by_memory[key]

    possible = [
        candidate
        for candidate in combinations(space.knobs, most=MOST_CANDIDATES)
        if strategy.is_possible(job, candidate)
    ]
    fitting = [candidate for candidate in possible if fits_in_memory(candidate)]
    if not fitting:
        raise space.memory.refusal(possible)

    def is_allowed(candidate: Candidate) -> bool:
        return strategy.is_possible(job, candidate) and fits_in_memory(candidate)

    ranked = rank(fitting, space.predictor.simulate)
    return ranked, simplest(ranked[0].candidate, space.predictor.simulate, is_allowed)


def search_what_fits(job: Job, space: Space, *, may_run: bool) -> tuple[list[Ranked], Candidate]:
    """Return what `search` does, with a best candidate that was checked to fit.

    After each refusal the search runs again without the refused candidate.
    """
    for _ in range(MOST_SETTLED):
        ranked, best = search(job, space)
        if space.memory.settle(best, may_run=may_run):
            return ranked, best
    raise PlanError(
        f"none of the {MOST_SETTLED} best candidates fits: {space.memory.sentence(best)}",
        hint="use a smaller batch, a smaller --seq-len, or more devices",
    )


def tune(
    job: Job, records: Sequence[Measurement], settings: Settings, *, confirm_by_runs: bool = True
) -> Tuned:
    """Return the tuned config for `job` from `records`.

    With `confirm_by_runs`, fresh runs confirm what this machine can run.
    """
    strategy = strategy_of(job)
    space = strategy.space(job, records, settings)
    ranked, best = search_what_fits(job, space, may_run=confirm_by_runs)
    memory, default = space.memory, space.default
    memory.settle(default, may_run=False)
    base_s, best_s = space.seconds(default), space.seconds(best)
    settings.say(
        f"{len(ranked)} candidates fit; the default is predicted to take {base_s:.3f} s a step, "
        f"the best ({best.label}) {best_s:.3f} s"
    )
    notes = [*space.notes, *memory.notes()]
    fresh = _fresh_runs(job, space, ranked, best, settings, notes, confirm_by_runs=confirm_by_runs)
    pick = _pick(job, space, best, fresh)
    memory.settle(pick, may_run=False)
    for note in notes:
        settings.say(f"note: {note}")
    result = choices.SearchResult(
        default=default,
        best=best,
        pick=pick,
        arms=fresh.arms,
        decision=fresh.decision,
        unconfirmed=NOT_CONFIRMED if strategy.is_runnable(job, memory, default) else NO_BASELINE,
    )
    everything = (*records, *memory.records(), *fresh.records)
    return Tuned(
        config=_config(job, space, result, fresh, everything, notes, settings),
        step_model=space.step_model,
        knobs=space.knobs,
        ranked=ranked,
        arms=fresh.arms,
        decision=fresh.decision,
        records=everything,
        failures=fresh.failures,
        notes=tuple(notes),
    )


def _fresh_runs(
    job: Job,
    space: Space,
    ranked: Sequence[Ranked],
    best: Candidate,
    settings: Settings,
    notes: list[str],
    *,
    confirm_by_runs: bool,
) -> FreshRuns:
    """Return the fresh runs of the default, the best candidate and its ablations.

    Only what this machine can run of them has fresh runs.
    """
    strategy, default = strategy_of(job), space.default
    visible = [r for r in ranked if strategy.observable(job, r.candidate) == r.candidate]
    wanted = arms(
        default,
        strategy.observable(job, best),
        visible,
        space.predictor.simulate,
        count=job.candidates,
    )
    if not strategy.is_runnable(job, space.memory, default):
        sentence = space.memory.sentence(default)
        notes.append(f"{NO_BASELINE} ({sentence})")
        return FreshRuns(arms=wanted)
    if not confirm_by_runs or len(wanted) < 2:
        return FreshRuns(arms=wanted)
    return confirm(
        job.trainer,
        wanted,
        lambda candidate, stop: strategy.step_point(job, candidate, stop),
        rounds=job.rounds,
        step_s=strategy.run_factor() * max(space.seconds(default), space.seconds(best)),
        settings=settings,
    )


def _pick(job: Job, space: Space, best: Candidate, fresh: FreshRuns) -> Candidate:
    """Return the pick of the fresh runs; knobs that no run here shows keep their predicted best."""
    if fresh.decision is None:
        return best
    pick = fresh.arms[fresh.decision.pick].candidate
    unseen = [name for name in strategy_of(job).unobservable(job) if name in best.options]
    for name in unseen:
        pick = pick.with_option(name, best.options[name])
    # A change that is slower on one device may be what makes the whole mesh fit.
    return best if unseen and not space.memory.fits(pick) else pick


def _config(
    job: Job,
    space: Space,
    result: choices.SearchResult,
    fresh: FreshRuns,
    records: Sequence[Measurement],
    notes: Sequence[str],
    settings: Settings,
) -> TunedConfig:
    """Return the tuned config with all its choices."""
    strategy, pick = strategy_of(job), result.pick
    unseen = strategy.unobservable(job)
    made: dict[str, Choice] = {}
    for knob in space.knobs:
        is_unseen = knob.name in unseen
        mine = (
            replace(result, decision=None, unconfirmed=unseen[knob.name]) if is_unseen else result
        )
        evidence = _evidence(job, space, knob, [] if is_unseen else fresh.evidence_ids)
        made |= choices.choices_of(
            knob,
            mine,
            space.predictor.predict,
            default_of=lambda key: job.spec.value_of(job.config, key),
            evidence=evidence,
            doubts=_doubts(job, space, knob, pick, doubts_of(records, evidence)),
        )
    derived = strategy.derived(job, space, pick, settings)
    made |= derived
    keys = pick.keys | {key: choice.value for key, choice in derived.items()}
    keys |= strategy.launch_keys(job, pick)
    origin, source = strategy.origin_of(job, space.first)
    observed = space.observed_predictor or space.predictor
    return TunedConfig(
        trainer=job.trainer,
        config=job.spec.to_tables(job.with_keys(keys)),
        choices=made,
        confirmed=choices.confirmed(
            result, observed.predict, fresh.evidence, where=strategy.part_that_ran(job)
        ),
        node=space.first.node,
        device=space.first.device,
        device_kind=job.world.device,
        ranks=strategy.ranks(job, pick),
        environment=dict(space.first.variables),
        origin=origin,
        source=source,
        made_by="mi300bench " + " ".join(sys.argv[1:]),
        doubts=(*notes, space.memory.sentence(pick), *space.memory.doubts(), *unseen.values()),
    )


def _evidence(job: Job, space: Space, knob: Knob, fresh: Sequence[str]) -> list[str]:
    """Return the record ids behind a knob: of its options' predictions, of memory, of fresh runs.

    Memory records count for knobs that save memory.
    """
    rows = [
        identity
        for option in knob.options
        for identity in space.predictor.predict(
            space.default.with_option(knob.name, option)
        ).evidence
    ]
    rows += space.knob_evidence.get(knob.name, ())
    if job.spec.knob(knob.name).saves_memory:
        rows += space.memory.evidence()
    return list(dict.fromkeys([*rows, *fresh]))


def _doubts(
    job: Job, space: Space, knob: Knob, pick: Candidate, recorded: Sequence[str]
) -> list[str]:
    """Return the doubts of a knob: of its records, of its predictions, and its own."""
    spec = job.spec.knob(knob.name)
    rows = list(recorded)
    for option in knob.options:
        candidate = space.default.with_option(knob.name, option)
        rows += [str(doubt) for doubt in space.predictor.predict(candidate).doubts]
    if spec.doubt and (spec.is_always_doubted or pick.options[knob.name].keys):
        rows.append(spec.doubt.format(**space.readings))
    rows += space.knob_doubts.get(knob.name, ())
    if spec.saves_memory and spec.kind in LAYOUTS:
        rows += space.memory.doubts()
    rows += [
        reason for name, reason in strategy_of(job).unobservable(job).items() if name == knob.name
    ]
    return list(dict.fromkeys(rows))
