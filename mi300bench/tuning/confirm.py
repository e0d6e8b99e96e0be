"""Fresh interleaved runs of candidates, each in its own process, and the decision that follows."""

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

# DDP rebuilds its buckets in the second step; timing starts after that.
STEP_STOP = Stop(
    relative_ci=0.02, min_samples=3, max_seconds=6.0, warmup_seconds=0.0, min_warmup_calls=2
)
# Seconds that a fresh run takes to start its ranks and build the model, and its steps before the
# first sample: one to check, two to warm up.
START_S, STEPS_BEFORE = 6.0, 3
MOST_SAMPLING_S = 12.0
# Maps a candidate to the point that runs its whole step.
PointOf = Callable[[Candidate, Stop], Point]


def confirmation(trainer: str, points: Sequence[Point], rounds: int) -> Plan:
    """Return the plan that runs each point in `rounds` fresh processes, interleaved.

    Each round reverses the order of the points.
    """
    return plans.plan(
        f"Is another config faster than the default of {trainer}?",
        points,
        passes=rounds,
        interleaved=True,
    )


def affordable(settings: Settings, step_s: float, *, arms: int, rounds: int) -> tuple[int, Stop]:
    """Return how many arms fit into the time left, and when a run stops sampling.

    Every run needs its fewest samples, so a short time drops arms first. The default and one
    candidate always remain.
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
    """Return the seconds of each point of `plan` (rows) in each complete round (columns).

    Seconds are scaled to the useful work of the first point.
    """
    table: dict[int, dict[int, float]] = {}
    work: dict[int, float] = {}
    order = {point.key: index for index, point in enumerate(plan.points)}
    for record in measured.records:
        if record.outcome is Outcome.OK:
            index = order[record.point]
            work[index] = record.work.flop * record.world.ranks
            table.setdefault(index, {})[record.pass_index] = stats.seconds_per_call(record)
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
    """The fresh runs of a confirmation.

    arms      the arms that ran
    decision  None where too few rounds are complete
    evidence  the record ids of each arm, by the arm's index
    """

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
    """Run the arms and decide. There is no decision with fewer than three complete rounds.

    Few rounds give wide intervals. Where a relevant gain seems likely but is not proven, the same
    number of rounds is added once, as far as the budget allows.
    """
    count, stop = affordable(settings, step_s, arms=len(wanted), rounds=rounds)
    if count < len(wanted):
        settings.say(
            f"the budget is enough for {count} of {len(wanted)} configs: the other ones get no "
            "fresh runs"
        )
    chosen = wanted[:count]
    plan = confirmation(trainer, [point_of(arm.candidate, stop) for arm in chosen], rounds)
    begin = time.monotonic()
    measured = [measure(plan, settings)]
    took_s = time.monotonic() - begin
    decision = _decided(plan, measured, chosen)
    if decision is not None and _is_worth_more_rounds(decision, took_s / rounds, settings):
        settings.say(
            f"{rounds} rounds cannot tell the best config from the default; running {rounds} more"
        )
        measured.append(measure(plan, settings))
        decision = _decided(plan, measured, chosen) or decision
    records = tuple(record for part in measured for record in part.records)
    reasons = [reason for part in measured for reason in part.tally.reasons]
    if decision is None:
        cause = reasons[0] if reasons else "the budget was used up"
        settings.say(
            f"the pick is not confirmed: fewer than {FEWEST_ROUNDS} rounds of fresh runs are "
            f"complete ({cause})"
        )
    by_arm = {
        index: [r.id for r in records if r.point == point.key and r.outcome is Outcome.OK]
        for index, point in enumerate(plan.points)
    }
    return FreshRuns(
        arms=chosen, decision=decision, records=records, failures=tuple(reasons), evidence=by_arm
    )


def _decided(plan: Plan, measured: Sequence[Measured], chosen: Sequence[Arm]) -> Decision | None:
    """Return the decision over all complete rounds; None where they are too few."""
    tables = [table for part in measured if (table := seconds_by_round(plan, part))]
    rows = [[value for table in tables for value in table[index]] for index in range(len(chosen))]
    if not tables or len(rows[0]) < FEWEST_ROUNDS:
        return None
    return decide(rows, changed=[len(arm.candidate.changed) for arm in chosen])


def _is_worth_more_rounds(decision: Decision, round_s: float, settings: Settings) -> bool:
    """Return whether more rounds can change the decision, and the budget has time for one.

    They can if no arm was picked and some arm seems faster by a relevant amount, but not surely.
    """
    remaining = settings.remaining_s()
    unproven = [
        ratio.mid < 1 - stats.SMALLEST_EFFECT and verdict is stats.Verdict.CANNOT_TELL
        for ratio, verdict in zip(decision.ratios, decision.verdicts, strict=True)
    ]
    return not decision.pick and any(unproven) and (remaining is None or remaining > round_s)
