"""The whole job: what the machine is, what it does, what follows for the trainer, whether that holds.

Points come in the order in which the choice needs them, so a short budget costs the report, not the tuning.
Under half of the time goes to measuring, the rest to fresh runs that confirm the pick.
"""

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import replace

from mi300bench.errors import PlanError
from mi300bench.fit.step import LANES
from mi300bench.measurement import plans
from mi300bench.measurement.gemm_study import random_shapes
from mi300bench.measurement.local_topology import world
from mi300bench.measurement.measure import Measured, measure, only_ok
from mi300bench.measurement.settings import Settings
from mi300bench.schema.plan import Plan, Point, Stop
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.strategies.ddp import evidence
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh import points, tuning
from mi300bench.strategies.mesh.job import MeshJob
from mi300bench.trainers import registry
from mi300bench.tuning.result import Tuned
from mi300bench.tuning.tune import ONCE, tune, wanted_values
from mi300bench.units import GIB, MIB

# Shares of a budget: measuring until here, confirming until there; the rest is for writing.
MEASURE_UNTIL, CONFIRM_UNTIL = 0.45, 0.96
# A budget that is proposed is by so much larger than what was seen asks for.
SPARE_BUDGET = 1.2
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
PRODUCT = Stop(
    relative_ci=0.03, min_samples=5, max_seconds=0.3, warmup_seconds=0.02, min_warmup_calls=1
)
# What a single change does to the timeline; the fresh runs judge, so this only has to rank.
CHANGE = Stop(
    relative_ci=0.02, min_samples=4, max_seconds=4.0, warmup_seconds=0.0, min_warmup_calls=1
)
DRAWN_SHAPES = 24
TIMELINE = Stop(
    relative_ci=0.02, min_samples=6, max_seconds=15.0, warmup_seconds=0.0, min_warmup_calls=2
)


def _rank_stages(job: Job) -> list[tuple[str, list[Point]]]:
    """Return what the choices rest on, by what is lost with it: without the first stage there is no choice, each later one
    widens the search. A short budget so narrows it and does not lose what it rests on. All ranks are busy in all of them.
    """
    timeline = f"{job.trainer}.backward"
    others = [layout for layout in job.layouts()[1:] if layout.world != job.world]
    own = [layout for layout in job.layouts()[1:] if layout.world == job.world]
    needed = [
        plans.point(timeline, job.params(job.layout), job.world, stop=TIMELINE),
        *(_link_points(job) if job.world.ranks > 1 else []),
    ]
    changes = [
        plans.point(f"{job.trainer}.memory", job.step_params({}), job.world, stop=ONCE),
        *(plans.point(timeline, job.params(layout), layout.world, stop=CHANGE) for layout in own),
        *(
            plans.point(timeline, job.params(job.layout, **{key: value}), job.world, stop=CHANGE)
            for key, values in wanted_values(job).items()
            for value in values
        ),
    ]
    found = [
        ("the default's own curves", needed),
        (
            "other ranks and threads",
            [plans.point(timeline, job.params(x), x.world, stop=CHANGE) for x in others],
        ),
        ("single changes", changes),
        ("shapes", product_points(job) if job.weighs("shapes") else []),
    ]
    return [(what, points) for what, points in found if points]


def stages(job: Job | MeshJob) -> list[tuple[str, list[Point]]]:
    """Return what the choices of a job rest on, and what the report shows of the machine beside it."""
    if isinstance(job, MeshJob):
        return points.stages(job)
    return [*_rank_stages(job), ("the report", machine_points(job))]


def needed_points(job: Job) -> list[Point]:
    """Return the points of all stages."""
    return [point for _, points in _rank_stages(job) for point in points]


def _link_points(job: Job) -> list[Point]:
    total = 4 * registry.describe(job.trainer, job.config).total_elements
    sizes = [size for size in MESSAGE_SIZES if size < 2 * total] or [MESSAGE_SIZES[0]]
    beyond = [] if sizes[-1] >= total else [min(total, LARGEST_MESSAGE)]
    hidden = job.config.model.hidden
    tokens = job.config.data.seq_len * job.config.data.micro_batch
    overlap_sizes = [size for size in OVERLAP_SIZES if size <= total] or [OVERLAP_SIZES[0]]
    return [
        *plans.collective_points(["all_reduce"], [*sizes, *beyond], [job.world], stop=LINK),
        *plans.collective_points(
            ["all_reduce"], overlap_sizes, [job.world], inflight=evidence.PAIR, stop=LINK
        ),
        *plans.overlap_points(
            overlap_sizes,
            [(min(tokens, 4096), hidden, hidden)],
            job.world,
            dtype=job.config.precision,
            inflight=LANES["gloo"] if job.world.device == "cpu" else 1,
            stop=QUICK,
        ),
    ]


def product_points(job: Job) -> list[Point]:
    """Return the products of the model and of shapes drawn around them, for a fit that weighs other shapes."""
    described = registry.describe(job.trainer, job.config)
    own = plans.model_products(described.gemms)
    axes = list(zip(*((m, n, k) for m, n, k, _ in own), strict=True))
    reach = [[max(8, min(axis) // 2), round(max(axis) * 1.25)] for axis in axes]
    most = max(2.0 * m * n * k for m, n, k, _ in own)
    drawn = (p for p in random_shapes(reach, ("nt", "nn", "tn"), seed=0) if p.flop <= most)
    products = [*own, *((p.m, p.n, p.k, p.layout) for p in itertools.islice(drawn, DRAWN_SHAPES))]
    points = []
    for m, n, k, layout in products:
        points += plans.gemm_points(
            [(m, n, k)], job.world, layouts=[layout], dtypes=[job.config.precision], stop=PRODUCT
        )
    return points


def machine_points(job: Job) -> list[Point]:
    """Return what the report shows of the machine: memory through the caches, products of the model and squares."""
    alone = world(job.world.device, 1)
    described = registry.describe(job.trainer, job.config)
    large = 512 * MIB if job.world.device == "cpu" else 4 * GIB
    square_shapes = [
        (n, n, n) for n in (SQUARES if job.world.device == "cpu" else (1024, 2048, 4096, 8192))
    ]
    return [
        *plans.memory_points(
            ["copy", "triad"], [*MEMORY_SIZES, large], alone, variants=["op"], stop=QUICK
        ),
        *plans.gemm_points(square_shapes, alone, dtypes=["bfloat16", "float32"], stop=QUICK),
        *plans.model_gemm_points(described.gemms, alone, dtype=job.config.precision, stop=QUICK),
        *plans.memory_points(["copy", "triad"], [large], alone, variants=["compiled"], stop=QUICK),
    ]


def probing(job: Job | MeshJob, points: Sequence[Point], passes: int) -> Plan:
    """Return the plan of the measuring half."""
    return plans.plan(
        f"What does this machine do, as {job.trainer} {job.config.preset} needs it?",
        points,
        passes=passes,
    )


def require_basis(measured: Measured, wanted: int, *, seconds: float, budget_s: float) -> None:
    """Raise where nothing came out, or where the budget ended before all was measured that every choice rests on."""
    good = only_ok(measured, what="autotune")
    left = measured.tally.left_out
    if left:
        enough = math.ceil(SPARE_BUDGET * seconds * wanted / len(good) / MEASURE_UNTIL / 10) * 10
        raise PlanError(
            f"a budget of {budget_s:g} s ends before what every choice rests on is measured: {left} of {wanted} are left",
            hint=f"--budget {enough}s or more on this machine; what was measured is kept in {measured.path}",
        )


def autotune(
    job: Job | MeshJob, settings: Settings, *, budget_s: float, passes: int | None
) -> Tuned:
    """Measure, tune, confirm. Every record is in the store when this returns, or when it does not.

    `passes` fresh processes for each point; None leaves it to the budget.
    """
    start = time.monotonic()
    passes = passes or (1 if budget_s < ONE_PASS_BELOW_S else 3)
    limited = replace(settings, passes=passes, deadline=start + MEASURE_UNTIL * budget_s)
    records: list[Measurement] = []
    failures: list[str] = []
    for number, (what, points) in enumerate(stages(job)):
        settings.say(f"measuring {what}: {len(points)} points, {passes} pass(es)")
        chosen = (
            points.labelled(job, limited, (p.world for p in points))
            if isinstance(job, MeshJob)
            else limited
        )
        measured = measure(probing(job, points, passes), chosen)
        failures += measured.tally.reasons
        records += [record for record in measured.records if record.outcome is Outcome.OK]
        if number == 0:
            require_basis(
                measured, len(points) * passes, seconds=time.monotonic() - start, budget_s=budget_s
            )
    for reason in failures:
        settings.say(f"failed: {reason}")
    settings.say(f"measured {len(records)} points in {time.monotonic() - start:.0f} s; searching")
    confirming = replace(settings, deadline=start + CONFIRM_UNTIL * budget_s)
    tuned = (
        tuning.tune(job, records, confirming)
        if isinstance(job, MeshJob)
        else tune(job, records, confirming)
    )
    return replace(tuned, failures=(*failures, *tuned.failures))
