"""The whole job: what the machine is, what it does, what follows for the trainer, whether that holds.

Points come in the order in which the choice needs them, so a short budget costs the report, not the tuning.
Half of the time goes to measuring, the rest to fresh runs that confirm the pick.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from mi300bench.errors import NodeError
from mi300bench.fit.step import LANES
from mi300bench.flow import evidence, plans, trainers
from mi300bench.flow.measure import measure, only_ok
from mi300bench.flow.settings import Settings
from mi300bench.flow.tuning import Job, Tuned, tune
from mi300bench.flow.world import world
from mi300bench.schema.plan import Plan, Point, Stop
from mi300bench.units import GIB, MIB

# Shares of a budget: measuring until here, confirming until there; the rest is for writing.
MEASURE_UNTIL, CONFIRM_UNTIL = 0.5, 0.93
# Below this budget a point is measured in one process, and says so.
ONE_PASS_BELOW_S = 900.0

MESSAGE_SIZES = (8, 1024, 16 * 1024, 128 * 1024, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
# A single bucket of a large model is not measured whole; its prediction says that it is extrapolated.
LARGEST_MESSAGE = 2 * GIB
OVERLAP_SIZES = (8 * MIB, 16 * MIB, 32 * MIB)
MEMORY_SIZES = (64 * 1024, 256 * 1024, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
SQUARES = (256, 512, 1024, 2048)

QUICK = Stop(relative_ci=0.02, min_samples=5, max_seconds=1.0, warmup_seconds=0.1)
LINK = Stop(relative_ci=0.02, min_samples=7, max_seconds=1.5, warmup_seconds=0.1)
TIMELINE = Stop(relative_ci=0.02, min_samples=6, max_seconds=15.0, warmup_seconds=0.0, min_warmup_calls=2)


def needed_points(job: Job) -> list[Point]:
    """Return what the choice rests on: the timeline, the all-reduce curve, the overlap; all ranks busy."""
    if job.world.ranks < 2:
        raise NodeError(
            "gradient buckets exist between ranks, and this world has one",
            hint="--ranks 2, or run it where there are two devices or two cores",
        )
    total = 4 * trainers.describe(job.trainer, job.config).total_elements
    sizes = [size for size in MESSAGE_SIZES if size < 2 * total] or [MESSAGE_SIZES[0]]
    beyond = [] if sizes[-1] >= total else [min(total, LARGEST_MESSAGE)]
    hidden = job.config.model.hidden
    tokens = job.config.data.seq_len * job.config.data.micro_batch
    overlap_sizes = [size for size in OVERLAP_SIZES if size <= total] or [OVERLAP_SIZES[0]]
    return [
        plans.point(f"{job.trainer}.backward", job.params, job.world, stop=TIMELINE),
        *plans.collective_points(["all_reduce"], [*sizes, *beyond], [job.world], stop=LINK),
        *plans.collective_points(["all_reduce"], overlap_sizes, [job.world], inflight=evidence.PAIR, stop=LINK),
        *plans.overlap_points(
            overlap_sizes,
            [(min(tokens, 4096), hidden, hidden)],
            job.world,
            dtype=job.config.precision,
            inflight=LANES["gloo"] if job.world.device == "cpu" else 1,
            stop=QUICK,
        ),
    ]


def machine_points(job: Job) -> list[Point]:
    """Return what the report shows of the machine: memory through the caches, products of the model and squares."""
    alone = world(job.world.device, 1)
    described = trainers.describe(job.trainer, job.config)
    large = 512 * MIB if job.world.device == "cpu" else 4 * GIB
    square_shapes = [(n, n, n) for n in (SQUARES if job.world.device == "cpu" else (1024, 2048, 4096, 8192))]
    return [
        *plans.memory_points(["copy", "triad"], [*MEMORY_SIZES, large], alone, variants=["op"], stop=QUICK),
        *plans.gemm_points(square_shapes, alone, dtypes=["bfloat16", "float32"], stop=QUICK),
        *plans.model_gemm_points(described.gemms, alone, dtype=job.config.precision, stop=QUICK),
        *plans.memory_points(["copy", "triad"], [large], alone, variants=["compiled"], stop=QUICK),
    ]


def probing(job: Job, points: Sequence[Point], passes: int) -> Plan:
    """Return the plan of the measuring half."""
    return plans.plan(f"What does this machine do, as {job.trainer} {job.config.preset} needs it?", points, passes=passes)


def autotune(job: Job, settings: Settings, *, budget_s: float, passes: int | None) -> Tuned:
    """Measure, tune, confirm. Every record is in the store when this returns, or when it does not.

    `passes` fresh processes for each point; None leaves it to the budget.
    """
    start = time.monotonic()
    passes = passes or (1 if budget_s < ONE_PASS_BELOW_S else 3)
    plan = probing(job, [*needed_points(job), *machine_points(job)], passes)
    settings.say(f"measuring {len(plan.points)} points with {job.world.ranks} ranks and alone, {passes} pass(es)")
    measured = measure(plan, replace(settings, passes=passes, deadline=start + MEASURE_UNTIL * budget_s))
    for reason in measured.tally.reasons:
        settings.say(f"failed: {reason}")
    records = only_ok(measured, what="autotune")
    settings.say(f"measured {len(records)} points in {time.monotonic() - start:.0f} s; searching")
    tuned = tune(job, records, replace(settings, deadline=start + CONFIRM_UNTIL * budget_s))
    return replace(tuned, failures=(*measured.tally.reasons, *tuned.failures))
