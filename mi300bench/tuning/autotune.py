"""The whole job: what the machine does, what follows for the trainer, whether that holds.

Points come in the order in which the choice needs them, so a short budget costs the report, not the tuning.
Under half of the time goes to measuring, the rest to fresh runs that confirm the pick.
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

# Shares of a budget: measuring until here, confirming until there; the rest is for writing.
MEASURE_UNTIL, CONFIRM_UNTIL = 0.45, 0.96
# A budget that is proposed is by so much larger than what was seen asks for.
SPARE_BUDGET = 1.2
# Below this budget a point is measured in one process, with a doubt.
ONE_PASS_BELOW_S = 900.0


def measuring_plan(job: Job, points: Sequence[Point], passes: int) -> Plan:
    """Return the plan of the measuring half."""
    question = f"What does this machine do, as {job.trainer} {job.settings.preset} needs it?"
    return plans.plan(question, points, passes=passes)


def require_basis(measured: Measured, wanted: int, *, seconds: float, budget_s: float) -> None:
    """Raise where nothing came out, or where the budget ended before all was measured that every choice rests on."""
    good = only_ok(measured, what="autotune")
    left = measured.tally.left_out
    if left:
        enough = SPARE_BUDGET * seconds * wanted / len(good) / MEASURE_UNTIL
        raise PlanError(
            f"a budget of {budget_s:g} s ends before what every choice rests on is measured: "
            f"{left} of {wanted} measurements are missing",
            hint=f"--budget {math.ceil(enough / 10) * 10}s or more on this machine; "
            f"what was measured is kept in {measured.path}",
        )


def autotune(job: Job, settings: Settings, *, budget_s: float, passes: int | None) -> Tuned:
    """Measure, tune, confirm. Every record is in the store when this returns, or when it does not.

    `passes` fresh processes for each point; None leaves it to the budget.
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
