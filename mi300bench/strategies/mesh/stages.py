"""The points to measure for a trainer on a mesh: its step, collectives, products of the meshes.

The first stage is necessary; each later one adds options to the search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mi300bench.measurement import plans
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.run_settings import Mesh
from mi300bench.schema.trainer import KnobKind, KnobSpec
from mi300bench.strategies.base import Stage
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh.placement import (
    mesh_keys,
    model_of,
    possible_meshes,
    seen_world,
    step_params,
)
from mi300bench.units import MIB

COLLECTIVES = ("all_gather", "all_reduce")
SMALLEST_MESSAGE, LARGEST_MESSAGE, LARGEST_ON_A_CPU = 64 * 1024, 1024 * MIB, 64 * MIB
SIZE_STEP = 8
LINK = Stop(relative_ci=0.03, min_samples=5, max_seconds=0.5, warmup_seconds=0.05)
PRODUCT = Stop(
    relative_ci=0.03, min_samples=5, max_seconds=0.3, warmup_seconds=0.02, min_warmup_calls=1
)
STEP = Stop(
    relative_ci=0.02, min_samples=4, max_seconds=6.0, warmup_seconds=0.0, min_warmup_calls=1
)
CHANGE = Stop(
    relative_ci=0.02, min_samples=3, max_seconds=3.0, warmup_seconds=0.0, min_warmup_calls=1
)


def run_options(job: Job) -> dict[KnobSpec, Sequence[Mapping[str, Any]]]:
    """Return the possible options of each knob whose effect is measured by running a step.

    The default is short of memory if its arrays need over half of the limit.
    """
    held = model_of(job).held_bytes(job.config)
    is_short = job.memory_limit is not None and 2 * held > job.memory_limit
    request = job.request(is_short_of_memory=is_short)
    return {
        knob: [keys for keys in knob.options(request) if job.is_possible(keys)]
        for knob in job.weighed(KnobKind.RUN)
    }


def mesh_products(job: Job, mesh: Mesh) -> list[tuple[int, int, int, str, int]]:
    """Return (M, N, K, layout, count) of a device's products: forward and input gradient."""
    gemms = model_of(job).products(job.with_keys(mesh_keys(mesh)))
    return [
        row
        for gemm in gemms
        for row in (
            (gemm.m, gemm.n, gemm.k, "nn", gemm.count),
            (gemm.m, gemm.k, gemm.n, "nt", gemm.count),
        )
    ]


def product_points(job: Job) -> list[Point]:
    """Return the points of the products of all meshes, on one device."""
    alone, dtype = replace(job.world, ranks=1), job.settings.precision
    products = dict.fromkeys(
        row[:4] for mesh in possible_meshes(job) for row in mesh_products(job, mesh)
    )
    return [
        plans.point(
            "jax.gemm",
            {"m": m, "n": n, "k": k, "layout": layout, "dtype": dtype},
            alone,
            stop=PRODUCT,
        )
        for m, n, k, layout in products
    ]


def group_sizes(job: Job) -> list[int]:
    """Return the possible sizes of a mesh's groups of devices."""
    return [n for n in range(2, job.world.ranks + 1) if job.world.ranks % n == 0]


def collective_points(job: Job) -> list[Point]:
    """Return the points of the collectives for each size of group.

    Their messages go up to the largest one of a step, as far as the device allows.
    """
    traffic = model_of(job).traffic(job.config)
    most = LARGEST_ON_A_CPU if job.world.device == "cpu" else LARGEST_MESSAGE
    needed = max(traffic.weight_bytes, traffic.token_bytes * traffic.tokens, 64 * SMALLEST_MESSAGE)
    sizes = [SMALLEST_MESSAGE]
    while sizes[-1] < min(most, needed):
        sizes.append(sizes[-1] * SIZE_STEP)
    return [
        plans.point(
            f"jax.collective.{op}",
            {"bytes": size, "dtype": "float32"},
            replace(job.world, ranks=ranks),
            stop=LINK,
        )
        for ranks in group_sizes(job)
        for op in COLLECTIVES
        for size in sizes
    ]


def step_point(job: Job, keys: Mapping[str, Any], stop: Stop) -> Point:
    """Return the point that trains whole steps, as they can run here."""
    return plans.point(f"{job.trainer}.step", step_params(job, keys), seen_world(job), stop=stop)


def stages(job: Job) -> list[Stage]:
    """Return the points behind the choices, the most important stage first."""
    changes = [
        step_point(job, keys, CHANGE) for options in run_options(job).values() for keys in options
    ]
    is_meshed = job.world.ranks > 1 and bool(job.weighed(KnobKind.MESH))
    rows = [
        Stage(purpose="the default's step", points=[step_point(job, {}, STEP)]),
        Stage(
            purpose="collectives among the devices",
            points=collective_points(job) if is_meshed else [],
        ),
        Stage(purpose="single changes", points=changes),
        Stage(purpose="products of the meshes", points=product_points(job) if is_meshed else []),
    ]
    return [stage for stage in rows if stage.points]
