"""A trainer tuned: on this machine, from the records of a store, or from published figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mi300bench.api.measuring import device_kind
from mi300bench.errors import PlanError, ProbeError
from mi300bench.measurement.local_topology import memory_limit
from mi300bench.measurement.settings import Settings
from mi300bench.published.figures import published_device
from mi300bench.runner.external_launcher import is_joined
from mi300bench.store.newest import newest_records
from mi300bench.store.reader import read_records
from mi300bench.strategies.base import Request
from mi300bench.strategies.job import DEFAULT_TOLERANCE, FEWEST_ROUNDS, Job
from mi300bench.strategies.table import strategy_for, strategy_of
from mi300bench.trainers.registry import spec_of
from mi300bench.tuning.autotune import autotune
from mi300bench.tuning.from_published import tune_from_published
from mi300bench.tuning.result import Tuned, write
from mi300bench.tuning.tune import tune

__all__ = [
    "JobOptions",
    "autotune",
    "job_from",
    "require_no_failures",
    "tune_from_figures",
    "tune_from_store",
    "write",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of a job. One that is left out has the default of the trainer or the machine.

    sizes         sizes of the batch, by the trainer's names of them: ``seq_len``, ``micro_batch``,
                  ``batch``, ``accumulate``
    precisions    further precisions to weigh
    keep_shapes   do not tune the shapes of the model
    memory_limit  bytes that a rank or device may use
    only          the knobs to weigh; all if empty
    rounds        fresh runs of each config that is confirmed
    candidates    how many candidates get fresh runs
    launcher      the command that starts the ranks
    """

    trainer: str
    preset: str = ""
    device: str = "auto"
    ranks: int | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    precisions: Sequence[str] = ()
    keep_shapes: bool = False
    param_tolerance: float | None = None
    memory_limit: float | None = None
    only: Sequence[str] = ()
    rounds: int = FEWEST_ROUNDS
    candidates: int = 2
    launcher: str = ""


def job_from(options: JobOptions, *, is_absent: bool = False) -> Job:
    """Return the job of `options`; raise `PlanError` for an option that makes no sense.

    `is_absent`: the job is for another machine, so nothing is checked on this one.
    """
    spec = spec_of(options.trainer)
    kind = device_kind(options.device)
    for name, value in {**options.sizes, "ranks": options.ranks}.items():
        option = f"--{name.replace('_', '-')}"
        if name not in (*spec.options, "ranks"):
            known = ", ".join(f"--{n.replace('_', '-')}" for n in spec.options)
            raise PlanError(f"{spec.name} has no {option}", hint=f"its options are {known}")
        if value is not None and value < 1:
            raise PlanError(
                f"{option} must be at least 1 (got {value})", hint=f"give {option} 1 or more"
            )
    if options.param_tolerance is not None and not spec.has_model_shapes:
        raise PlanError(
            f"{spec.name} has no --param-tolerance: it does not tune the model's shapes",
            hint="omit --param-tolerance",
        )
    config = spec.preset(options.preset or spec.default_presets[kind])
    keys = {spec.options[name]: value for name, value in options.sizes.items()}
    request = Request(
        device=kind, ranks=options.ranks, launcher=options.launcher, is_absent=is_absent
    )
    world, placed = strategy_for(spec).place(spec, config, keys, request)
    limit = options.memory_limit
    tolerance = options.param_tolerance
    return Job(
        spec=spec,
        config=placed,
        world=world,
        rounds=options.rounds,
        candidates=options.candidates,
        memory_limit=limit if limit is not None else memory_limit(world, is_absent=is_absent),
        # Ranks that the user or a launcher has set are not changed.
        may_regroup=options.ranks is None and not options.launcher and not is_joined(),
        keep_shapes=options.keep_shapes,
        param_tolerance=DEFAULT_TOLERANCE if tolerance is None else tolerance,
        precisions=tuple(options.precisions),
        only=tuple(options.only),
    )


def tune_from_store(job: Job, settings: Settings, *, confirm_by_runs: bool = True) -> Tuned:
    """Return the tuned config, from the newest records of the node and store of `settings`.

    Only records with the origin of `settings` count.
    """
    strategy = strategy_of(job)
    chosen = []
    for record in read_records(settings.store, warn=settings.say):
        labelled = strategy.labelled(job, settings, [record.world])
        has_origin = (record.origin, record.source) == (labelled.origin, labelled.source)
        if record.node == settings.node and has_origin:
            chosen.append(record)
    return tune(job, newest_records(chosen), settings, confirm_by_runs=confirm_by_runs)


def tune_from_figures(options: JobOptions, device: str, settings: Settings) -> Tuned:
    """Return the tuned config for a `device`, from its published figures alone."""
    published = published_device(device)
    job = job_from(replace(options, device=published.kind), is_absent=True)
    return tune_from_published(job, published, settings)


def require_no_failures(tuned: Tuned) -> None:
    """Raise `ProbeError` if a measurement failed on the way to the config."""
    if tuned.failures:
        raise ProbeError(
            f"{len(tuned.failures)} measurement(s) failed, the first with: {tuned.failures[0]}",
            hint="the config rests on the others; to see all: "
            'mi300bench query "SELECT probe, reason FROM records"',
        )
