"""Store -> tuned config: fit, search, confirm on fresh interleaved runs, decide, write.

The search is cheap (a simulation a candidate); fresh runs are not, so only the default and the best few
candidates get them.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w

from mi300bench import stats
from mi300bench.errors import NodeError, PlanError
from mi300bench.fit.packing import Caps
from mi300bench.fit.step import StepModel
from mi300bench.flow import evidence, plans, trainers
from mi300bench.flow.measure import Measured, measure
from mi300bench.flow.settings import Settings
from mi300bench.schema import config as tuned_config
from mi300bench.schema.config import TunedConfig
from mi300bench.schema.plan import Plan, Stop
from mi300bench.schema.record import Measurement, Outcome, Scalar, World
from mi300bench.tune import zaya1
from mi300bench.tune.decide import Decision, complete_rounds, decide
from mi300bench.tune.search import Ranked, rank, shortlist
from mi300bench.tune.space import bucket_caps, distinct_packings

# A step settles after DDP has rebuilt its buckets, which it does in the second one.
STEP_STOP = Stop(relative_ci=0.02, min_samples=4, max_seconds=6.0, warmup_seconds=0.0, min_warmup_calls=2)
# Two pairs of runs agree by chance too often; three rarely do.
FEWEST_ROUNDS = 3
# What a fresh run costs beside its steps (starting the ranks, building the model), and how many steps pass before
# the first sample: one checked, two to warm up.
START_S, STEPS_BEFORE = 10.0, 3
MOST_SAMPLING_S = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is tuned: a trainer's config in a world."""

    trainer: str
    config: Any
    world: World
    rounds: int = 3
    candidates: int = 2

    def __post_init__(self) -> None:
        if self.rounds < FEWEST_ROUNDS or self.candidates < 1:
            raise PlanError(
                f"{self.rounds} rounds of {self.candidates} candidate(s) confirm nothing",
                hint=f"--rounds of at least {FEWEST_ROUNDS}, --candidates of at least 1; or --no-confirm with tune",
            )

    @property
    def params(self) -> dict[str, Scalar]:
        """Return the parameters that timeline and step points of this job share."""
        data = self.config.data
        return {"preset": self.config.preset, "seq_len": data.seq_len, "micro_batch": data.micro_batch}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The config, and what led to it, for the report."""

    config: TunedConfig
    model: StepModel
    ranked: Sequence[Ranked]
    shortlisted: Sequence[Ranked] = ()
    decision: Decision | None = None
    records: tuple[Measurement, ...] = field(default=())
    failures: tuple[str, ...] = ()  # points that gave no result on the way


def search(job: Job, records: Sequence[Measurement]) -> tuple[StepModel, list[Ranked]]:
    """Return the step model of the records and all distinct candidates, best predicted first."""
    model = evidence.step_model(records, job.trainer, job.world, **job.params)
    version = next(str(r.conditions.get("framework_version", "0")) for r in records if r.id in model.timeline.evidence)
    sizes = model.timeline.gradient_bytes
    return model, rank(model, distinct_packings(sizes, bucket_caps(sizes, torch_version=version)))


def confirmation(job: Job, values: Sequence[Caps], rounds: int, *, stop: Stop = STEP_STOP) -> Plan:
    """Return the plan that runs each value in `rounds` processes of its own, interleaved, order reversed each round."""
    points = [
        plans.point(f"{job.trainer}.step", job.params | {"bucket_cap_mb": zaya1.caps_text(value)}, job.world, stop=stop)
        for value in values
    ]
    return plans.plan(f"Is another bucket size than the default faster for {job.trainer}?", points, passes=rounds, interleaved=True)


def affordable(settings: Settings, step_s: float, *, sides: int, rounds: int) -> tuple[int, Stop]:
    """Return how many sides a confirmation can have in the time left, and how long each run may sample.

    A run that cannot take three samples confirms nothing, so sides are dropped first: the default and one pick remain.
    """
    remaining = settings.remaining_s()
    if remaining is None:
        return sides, STEP_STOP
    while True:
        sampling = remaining / (sides * rounds) - START_S - STEPS_BEFORE * step_s
        if sampling >= STEP_STOP.min_samples * step_s or sides == 2:
            return sides, replace(STEP_STOP, max_seconds=min(MOST_SAMPLING_S, max(sampling, step_s)))
        sides -= 1


def medians_by_round(plan: Plan, measured: Measured) -> list[list[float]]:
    """Return seconds per step, a row a point of `plan`, a column a complete round."""
    table: dict[int, dict[int, float]] = {}
    order = {point.key: index for index, point in enumerate(plan.points)}
    for record in measured.records:
        if record.outcome is Outcome.OK:
            table.setdefault(order[record.point], {})[record.pass_index] = stats.seconds_per_call(record)
    rounds = complete_rounds(table, len(plan.points))
    return [[table[index][number] for number in rounds] for index in range(len(plan.points))]


def tune(job: Job, records: Sequence[Measurement], settings: Settings, *, confirm: bool = True) -> Tuned:
    """Return the tuned config for `job` from `records`; confirms the pick by fresh runs where asked."""
    model, ranked = search(job, records)
    default = next(row for row in ranked if row.stands_for(zaya1.DEFAULT))
    # Where no gain is predicted that would be taken, one candidate is run to see whether the prediction holds.
    gain = 1 - ranked[0].prediction.value.mid / default.prediction.value.mid
    shortlisted = shortlist(ranked, count=job.candidates if gain > stats.SMALLEST_EFFECT else 1)
    settings.say(
        f"{len(ranked)} distinct packings; the default is predicted to take {default.prediction.value.mid:.3f} s a "
        f"step, the best ({zaya1.caps_text(ranked[0].candidate.value)} MiB) {ranked[0].prediction.value.mid:.3f} s"
    )
    decision: Decision | None = None
    fresh: tuple[Measurement, ...] = ()
    failures: list[str] = []
    if confirm and job.world.ranks > 1:
        sides, stop = affordable(settings, default.prediction.value.mid, sides=len(shortlisted), rounds=job.rounds)
        shortlisted = shortlisted[:sides]
        plan = confirmation(job, [row.candidate.value for row in shortlisted], job.rounds, stop=stop)
        measured = measure(plan, settings)
        fresh = measured.records
        failures = measured.tally.reasons
        table = medians_by_round(plan, measured)
        if table and len(table[0]) >= FEWEST_ROUNDS:
            decision = decide(table)
        else:
            cause = failures[0] if failures else "the budget was used up"
            settings.say(f"fewer than {FEWEST_ROUNDS} complete rounds of fresh runs: the pick is not confirmed ({cause})")
    used = (*model.timeline.evidence, *model.link.evidence, *model.overlap.evidence)
    fresh_ids = tuple(record.id for record in fresh if record.outcome is Outcome.OK)
    choice = zaya1.choice(
        ranked,
        shortlisted,
        decision,
        evidence=(*used, *fresh_ids),
        doubts=zaya1.doubts_of(model, ranked, evidence.doubts([*records, *fresh], (*used, *fresh_ids))),
    )
    override = trainers.module(job.trainer, "config").override
    first = next(record for record in records if record.id in model.timeline.evidence)
    config = TunedConfig(
        trainer=job.trainer,
        config=trainers.tables(job.trainer, override(job.config, zaya1.KEY, choice.value)),
        choices={zaya1.KEY: choice},
        confirmed=zaya1.confirmed(shortlisted, decision, fresh_ids) if decision else None,
        node=first.node,
        device=first.device,
        origin=str(first.origin),
        source=first.source,
        made_by="mi300bench " + " ".join(sys.argv[1:]),
    )
    return Tuned(
        config=config,
        model=model,
        ranked=ranked,
        shortlisted=shortlisted,
        decision=decision,
        records=(*records, *fresh),
        failures=tuple(failures),
    )


def write(config: TunedConfig, path: Path) -> None:
    """Write the tuned config, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(tomli_w.dumps(tuned_config.to_document(config)))
        partial.rename(path)
    except OSError as cause:
        raise NodeError(f"{path} cannot be written: {cause.strerror}", hint="give another --out") from cause
