"""The devices of a mesh: which meshes a job can have, and what this machine can run of a step.

Several devices on a CPU are virtual and share the processor. Then only the step of one device, with
its share of the batch, can be measured and confirmed. The mesh is predicted from curves and from
compiled steps, and that is a doubt.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mi300bench.measurement.settings import Settings
from mi300bench.schema.record import Measurement, Origin, Scalar, World
from mi300bench.schema.run_settings import Mesh
from mi300bench.schema.trainer import KnobKind, MeshModel
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh.traffic import meshes

# Keys that the config of every trainer of this strategy has.
DP, FSDP, MP = MESH_KEYS = ("mesh.dp", "mesh.fsdp", "mesh.mp")
BATCH, SEQ_LEN = "data.batch", "data.seq_len"
MESH_KNOB = "mesh"
VIRTUAL = "virtual devices on one CPU"
ALONE = Mesh(dp=1, fsdp=1, mp=1)


def model_of(job: Job) -> MeshModel:
    """Return the trainer's model on a mesh."""
    assert job.spec.mesh_model is not None
    return job.spec.mesh_model


def mesh_keys(mesh: Mesh) -> dict[str, int]:
    """Return a mesh as keys of a config."""
    return {DP: mesh.dp, FSDP: mesh.fsdp, MP: mesh.mp}


def mesh_of(job: Job) -> Mesh:
    """Return the default's mesh."""
    mesh = job.settings.mesh
    assert mesh is not None
    return mesh


def is_virtual(job: Job) -> bool:
    """Return whether the devices share one processor."""
    return job.world.device == "cpu" and job.world.ranks > 1


def seen_world(job: Job) -> World:
    """Return the world in which a step can run here: one device if they are virtual, else all."""
    return replace(job.world, ranks=1) if is_virtual(job) else job.world


def seen_config(job: Job, keys: Mapping[str, Any]) -> Any:
    """Return the config that can run here: of virtual devices one, with its share of the batch."""
    config = job.with_keys(keys)
    if not is_virtual(job):
        return config
    batch = job.spec.settings(config, job.world.ranks).batch
    share = max(1, batch.global_batch // job.world.ranks // batch.accumulate) * batch.accumulate
    return job.spec.override(config, mesh_keys(ALONE) | {BATCH: share})


def step_params(job: Job, keys: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return the parameters of the point that trains what can run here with `keys` set."""
    config = seen_config(job, keys)
    mesh = job.spec.settings(config, 1).mesh
    assert mesh is not None
    left_out = (*MESH_KEYS, BATCH, SEQ_LEN)
    rest = {name: value for name, value in keys.items() if name not in left_out}
    return job.point_params(config, mesh_keys(mesh) | rest)


def possible_meshes(job: Job) -> list[Mesh]:
    """Return the meshes that divide the model and the batch, the default first."""
    default = mesh_of(job)
    if not job.weighed(KnobKind.MESH):
        return [default]
    others = [
        mesh
        for mesh in meshes(job.world.ranks)
        if mesh != default
        and job.is_possible(mesh_keys(mesh))
        and model_of(job).divides(job.with_keys(mesh_keys(mesh)))
    ]
    return [default, *others]


def labelled(job: Job, settings: Settings, worlds: Iterable[World]) -> Settings:
    """Return the settings for points in `worlds`; those of several virtual devices are emulated."""
    if not is_virtual(job) or all(world.ranks == 1 for world in worlds):
        return settings
    return replace(settings, origin=Origin.EMULATED, source=VIRTUAL)


def belongs(record: Measurement, job: Job, settings: Settings) -> bool:
    """Return whether a stored record has the wanted origin; for virtual devices it is emulated."""
    wanted = labelled(job, settings, [record.world])
    return (record.origin, record.source) == (wanted.origin, wanted.source)
