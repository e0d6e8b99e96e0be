"""The points to measure for a data-parallel trainer, the most important stage first.

Every choice needs the first stage; each later stage adds options. So a short budget narrows the
search but does not prevent it. The last stage is for the report only. All ranks are busy in every
stage except the last.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from mi300bench.fit.step import LANES
from mi300bench.measurement import plans
from mi300bench.measurement.gemm_study import random_shapes
from mi300bench.measurement.local_topology import local_topology
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.trainer import KnobKind, KnobSpec
from mi300bench.strategies.base import Stage
from mi300bench.strategies.ddp.evidence import PAIR
from mi300bench.strategies.ddp.layouts import (
    ACCUMULATE,
    MICRO_BATCH,
    default_layout,
    layouts_of,
    step_params,
    timeline_params,
)
from mi300bench.strategies.job import Job
from mi300bench.units import GIB, MIB

MESSAGE_SIZES = (8, 1024, 16 * 1024, 128 * 1024, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
# Larger messages are not measured; the prediction has the doubt that it is extrapolated.
LARGEST_MESSAGE = 2 * GIB
OVERLAP_SIZES = (8 * MIB, 16 * MIB, 32 * MIB)
MEMORY_SIZES = (64 * 1024, 256 * 1024, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
CPU_SQUARES, GPU_SQUARES = (256, 512, 1024, 2048), (1024, 2048, 4096, 8192)
CPU_LARGEST_ARRAY, GPU_LARGEST_ARRAY = 512 * MIB, 4 * GIB
DRAWN_SHAPES, MOST_OVERLAP_ROWS = 24, 4096

QUICK = Stop(relative_ci=0.02, min_samples=5, max_seconds=1.0, warmup_seconds=0.1)
LINK = Stop(relative_ci=0.02, min_samples=7, max_seconds=1.5, warmup_seconds=0.1)
PRODUCT = Stop(
    relative_ci=0.03, min_samples=5, max_seconds=0.3, warmup_seconds=0.02, min_warmup_calls=1
)
# For single changes. They only have to be ranked, because fresh runs decide.
CHANGE = Stop(
    relative_ci=0.02, min_samples=4, max_seconds=4.0, warmup_seconds=0.0, min_warmup_calls=1
)
TIMELINE = Stop(
    relative_ci=0.02, min_samples=6, max_seconds=15.0, warmup_seconds=0.0, min_warmup_calls=2
)
# For memory points, which read the memory before the first sample.
ONCE = Stop(min_samples=1, max_seconds=0.0, warmup_seconds=0.0, min_warmup_calls=1)


def is_short_of_memory(job: Job) -> bool:
    """Return whether the largest micro-batch needs over half of the memory limit."""
    if job.memory_limit is None:
        return False
    largest = max(layouts_of(job), key=lambda layout: layout.micro_batch)
    keys = {MICRO_BATCH: largest.micro_batch, ACCUMULATE: largest.accumulate}
    model = job.spec.data_parallel
    assert model is not None
    need = model.memory(job.with_keys(keys), ranks=largest.world.ranks, readings={})
    return 2 * need.peak_bytes > job.memory_limit


def run_options(job: Job) -> dict[KnobSpec, Sequence[Mapping[str, Any]]]:
    """Return the options of each knob whose effect is measured by running a step."""
    request = job.request(is_short_of_memory=is_short_of_memory(job))
    return {knob: knob.options(request) for knob in job.weighed(KnobKind.RUN)}


def stages(job: Job) -> list[Stage]:
    """Return the stages: the points behind the choices, then the points of the report."""
    default, layouts = default_layout(job), layouts_of(job)[1:]
    backward = f"{job.trainer}.backward"
    changes = [
        plans.point(f"{job.trainer}.memory", step_params(job, {}), job.world, stop=ONCE),
        *(
            plans.point(backward, timeline_params(job, layout, {}), layout.world, stop=CHANGE)
            for layout in layouts
            if layout.world == job.world
        ),
        *(
            plans.point(backward, timeline_params(job, default, keys), job.world, stop=CHANGE)
            for options in run_options(job).values()
            for keys in options
        ),
    ]
    elsewhere = [
        plans.point(backward, timeline_params(job, layout, {}), layout.world, stop=CHANGE)
        for layout in layouts
        if layout.world != job.world
    ]
    needed = [
        plans.point(backward, timeline_params(job, default, {}), job.world, stop=TIMELINE),
        *(link_points(job) if job.world.ranks > 1 else []),
    ]
    rows = [
        Stage(purpose="the default's own curves", points=needed),
        Stage(purpose="other ranks and threads", points=elsewhere),
        Stage(purpose="single changes", points=changes),
        Stage(
            purpose="shapes", points=product_points(job) if job.weighed(KnobKind.PRODUCTS) else []
        ),
        Stage(purpose="the report", points=machine_points(job)),
    ]
    return [stage for stage in rows if stage.points]


def memory_point(job: Job, candidate: Candidate) -> Point:
    """Return the point that measures the memory of the candidate's processes."""
    params = step_params(job, candidate.keys)
    world = candidate.world or job.world
    return plans.point(f"{job.trainer}.memory", params, world, stop=ONCE)


def link_points(job: Job) -> list[Point]:
    """Return the points of the all_reduce curve, of concurrent all_reduces, and of the overlap."""
    described, batch = job.described, job.settings.batch
    total = 4 * described.total_elements
    sizes = [size for size in MESSAGE_SIZES if size < 2 * total] or [MESSAGE_SIZES[0]]
    beyond = [] if sizes[-1] >= total else [min(total, LARGEST_MESSAGE)]
    rows = min(batch.seq_len * batch.micro_batch, MOST_OVERLAP_ROWS)
    overlap_sizes = [size for size in OVERLAP_SIZES if size <= total] or [OVERLAP_SIZES[0]]
    return [
        *plans.collective_points(["all_reduce"], [*sizes, *beyond], [job.world], stop=LINK),
        *plans.collective_points(
            ["all_reduce"], overlap_sizes, [job.world], inflight=PAIR, stop=LINK
        ),
        *plans.overlap_points(
            overlap_sizes,
            [(rows, described.width, described.width)],
            job.world,
            dtype=job.settings.precision,
            inflight=LANES["gloo"] if job.world.device == "cpu" else 1,
            stop=QUICK,
        ),
    ]


def product_points(job: Job) -> list[Point]:
    """Return the points for the fit of products: the model's own, and random shapes near them."""
    own = plans.model_products(job.described.gemms)
    axes = list(zip(*((m, n, k) for m, n, k, _ in own), strict=True))
    reach = [[max(8, min(axis) // 2), round(max(axis) * 1.25)] for axis in axes]
    most = max(2.0 * m * n * k for m, n, k, _ in own)
    drawn = (p for p in random_shapes(reach, ("nt", "nn", "tn"), seed=0) if p.flop <= most)
    chosen = itertools.islice(drawn, DRAWN_SHAPES)
    points = []
    for m, n, k, layout in [*own, *((p.m, p.n, p.k, p.layout) for p in chosen)]:
        points += plans.gemm_points(
            [(m, n, k)],
            job.world,
            layouts=[layout],
            dtypes=[job.settings.precision],
            stop=PRODUCT,
        )
    return points


def machine_points(job: Job) -> list[Point]:
    """Return the points of the report: memory through the caches, products, square products."""
    is_cpu = job.world.device == "cpu"
    alone = local_topology(job.world.device, 1)
    large = CPU_LARGEST_ARRAY if is_cpu else GPU_LARGEST_ARRAY
    squares = [(n, n, n) for n in (CPU_SQUARES if is_cpu else GPU_SQUARES)]
    patterns = ["copy", "triad"]
    return [
        *plans.memory_points(patterns, [*MEMORY_SIZES, large], alone, variants=["op"], stop=QUICK),
        *plans.gemm_points(squares, alone, dtypes=["bfloat16", "float32"], stop=QUICK),
        *plans.model_gemm_points(
            job.described.gemms, alone, dtype=job.settings.precision, stop=QUICK
        ),
        *plans.memory_points(patterns, [large], alone, variants=["compiled"], stop=QUICK),
    ]
