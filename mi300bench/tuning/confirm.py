"""Fresh runs of candidates, interleaved, each in a process of its own, and what they decide. Whatever the trainer."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mi300bench import stats
from mi300bench.measurement import plans
from mi300bench.measurement.measure import Measured, measure
from mi300bench.measurement.settings import Settings
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.plan import Plan, Point, Stop
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.strategies.job import FEWEST_ROUNDS
from mi300bench.tuning.decide import Decision, complete_rounds, decide
from mi300bench.tuning.search import Arm

# A step settles after DDP has rebuilt its buckets, which it does in the second one.
STEP_STOP = Stop(
    relative_ci=0.02, min_samples=3, max_seconds=6.0, warmup_seconds=0.0, min_warmup_calls=2
)
# What a fresh run costs beside its steps (starting the ranks, building the model), and how many steps pass before
# the first sample: one checked, two to warm up.
START_S, STEPS_BEFORE = 6.0, 3
MOST_SAMPLING_S = 12.0
# A candidate to the point that runs its whole step.
PointOf = Callable[[Candidate, Stop], Point]


def confirmation(trainer: str, points: Sequence[Point], rounds: int) -> Plan:
    """Return the plan that runs each point in `rounds` processes of its own, interleaved, order reversed each round."""
    return plans.plan(
        f"Is another config than the default faster for {trainer}?",
        points,
        passes=rounds,
        interleaved=True,
    )


def affordable(settings: Settings, step_s: float, *, arms: int, rounds: int) -> tuple[int, Stop]:
    """Return how many arms a confirmation can have in the time left, and how long each run may sample.

    A run that cannot take its fewest samples confirms nothing, so arms are dropped first: the default and one pick remain.
    """
    remaining = settings.remaining_s()
    if remaining is None:
        return arms, STEP_STOP
    while True:
        sampling = remaining / (arms * rounds) - START_S - STEPS_BEFORE * step_s
        if sampling >= STEP_STOP.min_samples * step_s or arms == 2:
            longest = min(MOST_SAMPLING_S, max(sampling, step_s))
            return arms, replace(STEP_STOP, max_seconds=longest)
        arms -= 1


def seconds_by_round(plan: Plan, measured: Measured) -> list[list[float]]:
    """Return seconds for the first point's useful work, a row a point of `plan`, a column a complete round."""
    table: dict[int, dict[int, float]] = {}
    work: dict[int, float] = {}
    order = {point.key: index for index, point in enumerate(plan.points)}
    for record in measured.records:
        if record.outcome is Outcome.OK:
            place = order[record.point]
            work[place] = record.work.flop * record.world.ranks
            table.setdefault(place, {})[record.pass_index] = stats.seconds_per_call(record)
    rounds = complete_rounds(table, len(plan.points))
    return (
        [
            [table[i][number] * work[0] / work[i] for number in rounds]
            for i in range(len(plan.points))
        ]
        if rounds
        else []
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshRuns:
    """The fresh runs of a confirmation: the arms that had them, the decision, and the record ids of each arm by its place."""

    arms: Sequence[Arm]
    decision: Decision | None = None
    records: tuple[Measurement, ...] = ()
    failures: tuple[str, ...] = ()
    evidence: Mapping[int, Sequence[str]] = field(default_factory=dict)

    @property
    def evidence_ids(self) -> list[str]:
        """Return the record ids of all arms."""
        return [identity for ids in self.evidence.values() for identity in ids]


def confirm(
    trainer: str,
    wanted: Sequence[Arm],
    point_of: PointOf,
    *,
    rounds: int,
    step_s: float,
    settings: Settings,
) -> FreshRuns:
    """Run the arms and decide; without a decision where the budget or failures left fewer than three rounds.

    Few rounds bound a ratio poorly. Where they cannot tell an effect that would matter from none, as many are added once, as
    far as the budget goes.
    """
    count, stop = affordable(settings, step_s, arms=len(wanted), rounds=rounds)
    if count < len(wanted):
        settings.say(
            f"the budget is enough for {count} of {len(wanted)} arms: ablations are left out"
        )
    chosen = wanted[:count]
    plan = confirmation(trainer, [point_of(arm.candidate, stop) for arm in chosen], rounds)
    begin = time.monotonic()
    measured = [measure(plan, settings)]
    took_s = time.monotonic() - begin
    decision = _decided(plan, measured, chosen)
    if decision is not None and _is_worth_more_rounds(decision, took_s / rounds, settings):
        settings.say(f"{rounds} rounds cannot tell; adding as many")
        measured.append(measure(plan, settings))
        decision = _decided(plan, measured, chosen) or decision
    records = tuple(record for part in measured for record in part.records)
    reasons = [reason for part in measured for reason in part.tally.reasons]
    if decision is None:
        cause = reasons[0] if reasons else "the budget was used up"
        settings.say(
            f"fewer than {FEWEST_ROUNDS} complete rounds of fresh runs: the pick is not confirmed ({cause})"
        )
    by_arm = {
        place: [r.id for r in records if r.point == point.key and r.outcome is Outcome.OK]
        for place, point in enumerate(plan.points)
    }
    return FreshRuns(
        arms=chosen, decision=decision, records=records, failures=tuple(reasons), evidence=by_arm
    )


def _decided(plan: Plan, measured: Sequence[Measured], chosen: Sequence[Arm]) -> Decision | None:
    """Return the decision over the complete rounds of all runs of a plan, None where they are too few."""
    tables = [table for part in measured if (table := seconds_by_round(plan, part))]
    rows = [[value for table in tables for value in table[place]] for place in range(len(chosen))]
    if not tables or len(rows[0]) < FEWEST_ROUNDS:
        return None
    return decide(rows, changed=[len(arm.candidate.changed) for arm in chosen])


def _is_worth_more_rounds(decision: Decision, round_s: float, settings: Settings) -> bool:
    """Return whether some arm seems faster by more than the smallest effect, unproven, and another round fits into the budget."""
    remaining = settings.remaining_s()
    unproven = [
        ratio.mid < 1 - stats.SMALLEST_EFFECT and verdict is stats.Verdict.CANNOT_TELL
        for ratio, verdict in zip(decision.ratios, decision.verdicts, strict=True)
    ]
    return not decision.pick and any(unproven) and (remaining is None or remaining > round_s)
