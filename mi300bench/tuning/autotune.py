"""The whole job: measure the machine, tune the trainer, confirm the pick.

Points are measured in the order in which the choice needs them, so a short budget costs the report,
not the tuning. Measuring takes under half of the time; fresh runs that confirm the pick take the
rest.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from mi300bench.errors import PlanError
from mi300bench.measurement import plans
from mi300bench.measurement.measure import Measured, measure, only_ok
from mi300bench.measurement.settings import Settings
from mi300bench.schema.plan import Plan, Point
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.strategies.job import Job
from mi300bench.strategies.table import strategy_of
from mi300bench.tuning.result import Tuned
from mi300bench.tuning.tune import tune

# Shares of the budget at which measuring and confirming end. The rest is for writing files.
MEASURE_UNTIL, CONFIRM_UNTIL = 0.45, 0.96
# A proposed budget exceeds the measured need by this factor.
SPARE_BUDGET = 1.2
# Below this budget a point is measured in one process, with a doubt.
ONE_PASS_BELOW_S = 900.0


def measuring_plan(job: Job, points: Sequence[Point], passes: int) -> Plan:
    """Return the plan that measures one stage."""
    question = f"How fast is this machine for {job.trainer} {job.settings.preset}?"
    return plans.plan(question, points, passes=passes)


def require_basis(measured: Measured, wanted: int, *, seconds: float, budget_s: float) -> None:
    """Raise unless all points of the first stage were measured: every choice rests on them."""
    good = only_ok(measured, what="autotune")
    left = measured.tally.left_out
    if left:
        enough = SPARE_BUDGET * seconds * wanted / len(good) / MEASURE_UNTIL
        raise PlanError(
            f"a budget of {budget_s:g} s is too short: {left} of {wanted} measurements that every "
            "choice rests on are missing",
            hint=f"give --budget {math.ceil(enough / 10) * 10}s or more on this machine; "
            f"the records so far are in {measured.path}",
        )


def autotune(job: Job, settings: Settings, *, budget_s: float, passes: int | None) -> Tuned:
    """Measure, tune and confirm. Every record is stored at once, so a failure loses none.

    Each point is measured in `passes` fresh processes; None derives the number from the budget.
    """
    start, strategy = time.monotonic(), strategy_of(job)
    passes = passes or (1 if budget_s < ONE_PASS_BELOW_S else 3)
    limited = replace(settings, passes=passes, deadline=start + MEASURE_UNTIL * budget_s)
    records: list[Measurement] = []
    failures: list[str] = []
    for number, stage in enumerate(strategy.stages(job)):
        settings.say(f"measuring {stage.purpose}: {len(stage.points)} points, {passes} pass(es)")
        labelled = strategy.labelled(job, limited, (point.world for point in stage.points))
        measured = measure(measuring_plan(job, stage.points, passes), labelled)
        failures += measured.tally.reasons
        records += [record for record in measured.records if record.outcome is Outcome.OK]
        if number == 0:
            wanted, seconds = len(stage.points) * passes, time.monotonic() - start
            require_basis(measured, wanted, seconds=seconds, budget_s=budget_s)
    for reason in failures:
        settings.say(f"failed: {reason}")
    took_s = time.monotonic() - start
    settings.say(f"measured {len(records)} points in {took_s:.0f} s; searching")
    tuned = tune(job, records, replace(settings, deadline=start + CONFIRM_UNTIL * budget_s))
    return replace(tuned, failures=(*failures, *tuned.failures))
