"""What a trainer on a mesh needs to have measured: its own step, the collectives of every group, the products of every mesh."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mi300bench.measurement import plans
from mi300bench.measurement.settings import Settings
from mi300bench.schema.candidate import Option
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.record import Measurement, Origin, World
from mi300bench.strategies.mesh import predictor
from mi300bench.strategies.mesh.job import MeshJob
from mi300bench.strategies.mesh.traffic import Layers, Mesh
from mi300bench.trainers import registry
from mi300bench.units import ELEMENT_BYTES, MIB

VIRTUAL = "virtual devices on one CPU"
COLLECTIVES = ("all_gather", "all_reduce")
SMALLEST_MESSAGE, LARGEST_MESSAGE, LARGEST_ON_A_CPU = 64 * 1024, 1024 * MIB, 64 * MIB
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


def wanted_values(job: MeshJob) -> dict[str, list[Any]]:
    """Return the values of one device's keys to weigh; parts of the batch only where the default's arrays come near the limit."""
    held = registry.module(job.trainer, "shapes").held_bytes(
        job.config, ELEMENT_BYTES[job.config.precision]
    )
    is_short = job.memory_limit is not None and 2 * held > job.memory_limit
    found = predictor.single_changes(
        job.config, is_short_of_memory=is_short, precisions=job.precisions
    )
    names = {predictor.ACCUMULATE: "batch"}
    return {
        key: values
        for key, values in found.items()
        if values and job.weighs(names.get(key, key.rpartition(".")[2]))
    }


def mesh_keys(mesh: Mesh) -> dict[str, Any]:
    """Return a mesh as keys of the config."""
    return {predictor.DP: mesh.dp, predictor.FSDP: mesh.fsdp, predictor.MP: mesh.mp}


def mesh_products(job: MeshJob, mesh: Mesh) -> list[tuple[int, int, int, str, int]]:
    """Return (M, N, K, layout, how often) of the products of a device on `mesh`: forward, and the input's gradient."""
    gemms = registry.module(job.trainer, "shapes").mesh_gemms(job.with_keys(mesh_keys(mesh)))
    return [
        row
        for g in gemms
        for row in ((g.m, g.n, g.k, "nn", g.count), (g.m, g.k, g.n, "nt", g.count))
    ]


def product_points(job: MeshJob) -> list[Point]:
    """Return the points of the products of all meshes, on one device."""
    alone = replace(job.world, ranks=1)
    every = dict.fromkeys(
        row[:4] for mesh in job.possible_meshes() for row in mesh_products(job, mesh)
    )
    return [
        plans.point(
            "jax.gemm",
            {"m": m, "n": n, "k": k, "layout": layout, "dtype": job.config.precision},
            alone,
            stop=PRODUCT,
        )
        for m, n, k, layout in every
    ]


def collective_points(job: MeshJob) -> list[Point]:
    """Return the points of the collectives in groups of every size that a mesh has, up to the largest message of a step."""
    layers = layers_of(job, job.config)
    most = LARGEST_ON_A_CPU if job.world.device == "cpu" else LARGEST_MESSAGE
    largest = min(
        most, max(layers.weight_bytes, layers.token_bytes * layers.tokens, 64 * SMALLEST_MESSAGE)
    )
    sizes = [SMALLEST_MESSAGE]
    while sizes[-1] < largest:
        sizes.append(sizes[-1] * 8)
    groups = [n for n in range(2, job.devices + 1) if job.devices % n == 0]
    return [
        plans.point(
            f"jax.collective.{op}",
            {"bytes": size, "dtype": "float32"},
            replace(job.world, ranks=n),
            stop=LINK,
        )
        for n in groups
        for op in COLLECTIVES
        for size in sizes
    ]


def step_point(job: MeshJob, keys: dict[str, Any], stop: Stop) -> Point:
    """Return the point that trains whole steps where a step can be seen."""
    return plans.point(f"{job.trainer}.step", job.step_params(keys), job.seen_world, stop=stop)


def stages(job: MeshJob) -> list[tuple[str, list[Point]]]:
    """Return what the choices rest on, by what is lost with it: the first is needed, each later one widens the search."""
    changes = [
        step_point(job, {key: value}, CHANGE)
        for key, values in wanted_values(job).items()
        for value in values
        if job.is_possible({key: value})
    ]
    lengths = [step_point(job, dict(o.keys), CHANGE) for o in length_options(job)]
    several = job.devices > 1 and job.weighs("mesh")
    found = [
        ("the default's step", [step_point(job, {}, STEP)]),
        ("collectives among the devices", collective_points(job) if several else []),
        ("single changes", [*changes, *lengths]),
        ("products of the meshes", product_points(job) if several else []),
    ]
    return [(what, points) for what, points in found if points]


def labelled(job: MeshJob, settings: Settings, worlds: Iterable[World]) -> Settings:
    """Return the settings for points in `worlds`; where several devices are virtual, they say that those are emulated."""
    if not job.is_virtual or all(world.ranks == 1 for world in worlds):
        return settings
    return replace(settings, origin=Origin.EMULATED, source=VIRTUAL)


def belongs(record: Measurement, job: MeshJob, settings: Settings) -> bool:
    """Return whether a stored record is of the origin that was asked for, which for virtual devices is emulated."""
    wanted = labelled(job, settings, [record.world])
    return (record.origin, record.source) == (wanted.origin, wanted.source)


def length_options(job: MeshJob) -> list[Option]:
    if not job.weighs("shapes"):
        return []
    data = job.config.data
    knob = predictor.length_knob(data.batch, data.seq_len, job.config.model.rope_original_length)
    return [option for option in knob.options if option.keys and job.is_possible(dict(option.keys))]


def layers_of(job: MeshJob, config: Any) -> Layers:
    """Return what a step of `config` moves."""
    shapes, element = registry.module(job.trainer, "shapes"), ELEMENT_BYTES[config.precision]
    one_layer = sum(inside * outside for inside, outside in shapes.linears(config.model).values())
    return Layers(
        count=config.model.layers,
        weight_bytes=float(element * one_layer),
        token_bytes=float(element * config.model.hidden),
        tokens=config.data.batch * config.data.seq_len,
        remat=config.compute.remat,
        passes=config.data.accumulate,
        gradient_bytes=shapes.gradient_message_bytes(config, element),
    )
