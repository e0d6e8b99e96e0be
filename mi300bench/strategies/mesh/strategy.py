"""A mesh of devices in one process under JAX.

The compiler partitions the step: it gathers weights and reduces activations.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, final

from mi300bench.errors import PlanError
from mi300bench.measurement.local_topology import default_ranks, local_topology
from mi300bench.measurement.settings import Settings
from mi300bench.published.figures import PublishedDevice
from mi300bench.schema.candidate import Candidate, Knob, Option, default_of
from mi300bench.schema.config import Choice
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.record import Measurement, Origin, World
from mi300bench.schema.run_settings import Mesh
from mi300bench.schema.trainer import KnobKind, TrainerSpec
from mi300bench.strategies.base import MemoryCheck, Request, Space, Stage, Strategy
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh import jax_client, placement, published, stages
from mi300bench.strategies.mesh.evidence import base_predictor, effects_of, widths_of
from mi300bench.strategies.mesh.memory import DeviceMemory
from mi300bench.strategies.mesh.placement import (
    MESH_KNOB,
    VIRTUAL,
    is_virtual,
    mesh_keys,
    mesh_of,
    possible_meshes,
)
from mi300bench.strategies.mesh.predictor import MeshPredictor, OneDevicePredictor

# The number of virtual devices on a CPU: that of the GPUs of a usual node.
VIRTUAL_DEVICES = 8


@final
class DeviceMesh(Strategy):
    """One process for all devices. On a CPU they are virtual: one runs, the mesh is predicted."""

    name = "mesh"

    def place(
        self, spec: TrainerSpec, config: Any, keys: Mapping[str, Any], request: Request
    ) -> tuple[World, Any]:
        """Return the world of devices, and the config on its default mesh.

        The default mesh has as many fsdp groups as the batch has sequences for; the rest is mp.
        """
        is_cpu = request.device == "cpu"
        usual = VIRTUAL_DEVICES if is_cpu else default_ranks(request.device)
        count = request.ranks if request.ranks is not None else usual
        world = local_topology(request.device, count, is_absent=request.is_absent or is_cpu)
        whole = mesh_keys(Mesh(dp=1, fsdp=1, mp=count))  # takes any batch
        batch = spec.settings(spec.override(config, {**keys, **whole}), count).batch
        sequences = batch.global_batch // batch.accumulate
        fsdp = math.gcd(max(1, sequences), count)
        mesh = Mesh(dp=1, fsdp=fsdp, mp=count // fsdp)
        placed = spec.override(config, {**keys, **mesh_keys(mesh)})
        assert spec.mesh_model is not None
        if not spec.mesh_model.divides(placed):
            raise PlanError(
                f"{sequences} sequences on {count} devices leave mp={mesh.mp}, which does not "
                "divide the model",
                hint=f"give --batch a multiple of {count}, or fewer --ranks",
            )
        return replace(world, framework=spec.framework), placed

    def stages(self, job: Job) -> list[Stage]:
        """Return the points to measure, the most important stage first."""
        return stages.stages(job)

    def published_records(self, job: Job, device: PublishedDevice) -> Iterator[Measurement]:
        """Yield products and collectives, from published figures."""
        return published.records_of(job, device)

    def space(self, job: Job, records: Sequence[Measurement], settings: Settings) -> Space:
        """Return the knobs that the records can weigh, with predictor and memory."""
        notes: list[str] = []
        base, first = base_predictor(job, records)
        options, effects = effects_of(records, job, notes)
        knobs = {name: Knob(name=name, options=(Option(), *rows)) for name, rows in options.items()}
        if job.world.ranks > 1:
            default_mesh = mesh_of(job)
            others = [mesh for mesh in possible_meshes(job) if mesh != default_mesh]
            for spec in job.weighed(KnobKind.MESH):
                rows = [Option(keys=mesh_keys(mesh)) for mesh in others]
                knobs[spec.name] = Knob(name=spec.name, options=(Option(), *rows))
        if not knobs:
            raise PlanError(
                "no knob has more than one option in this job",
                hint="give --only other knobs, or use more devices",
            )
        ordered = tuple(knobs[name] for name in job.spec.knob_names if name in knobs)
        predictor = replace(base, effects=effects, widths=widths_of(records, job, notes))
        return Space(
            knobs=ordered,
            default=default_of(ordered),
            predictor=predictor,
            memory=DeviceMemory(job, settings),
            first=first,
            notes=tuple(notes),
            observed_predictor=OneDevicePredictor(whole=predictor) if is_virtual(job) else None,
        )

    def labelled(self, job: Job, settings: Settings, worlds: Iterable[World]) -> Settings:
        """Return the settings for points in `worlds`; several virtual devices are emulated."""
        return placement.labelled(job, settings, worlds)

    def is_possible(self, job: Job, candidate: Candidate) -> bool:
        """Return whether the trainer accepts the candidate's keys: a mesh must divide the batch."""
        return job.is_possible(candidate.keys)

    def step_point(self, job: Job, candidate: Candidate, stop: Stop) -> Point:
        """Return the point that trains steps of a candidate, of one device if they are virtual."""
        return stages.step_point(job, candidate.keys, stop)

    def observable(self, job: Job, candidate: Candidate) -> Candidate:
        """Return the candidate, without its mesh if devices are virtual."""
        is_hidden = is_virtual(job) and MESH_KNOB in candidate.options
        return candidate.without(MESH_KNOB) if is_hidden else candidate

    def unobservable(self, job: Job) -> Mapping[str, str]:
        """Return that a mesh of virtual devices cannot be run."""
        if not is_virtual(job):
            return {}
        return {
            MESH_KNOB: f"not confirmable here: {job.world.ranks} virtual devices share one "
            "processor, so a mesh was predicted and not run"
        }

    def is_runnable(self, job: Job, memory: MemoryCheck, candidate: Candidate) -> bool:
        """Return whether the candidate's step can run; one virtual device always can."""
        return is_virtual(job) or memory.fits(candidate)

    def part_that_ran(self, job: Job) -> str:
        """Return which part of a step the fresh runs were."""
        return " (one device's share of the batch)" if is_virtual(job) else ""

    def run_factor(self) -> float:
        """Return 2, because a fresh run also compiles its step."""
        return 2.0

    def derived(
        self, job: Job, space: Space, pick: Candidate, settings: Settings
    ) -> Mapping[str, Choice]:
        """Return the choices of JAX's memory pool and of combining collectives."""
        predictor, memory = space.predictor, space.memory
        assert isinstance(predictor, MeshPredictor) and isinstance(memory, DeviceMemory)
        return dict(jax_client.choices(job, predictor, memory, pick, settings))

    def ranks(self, job: Job, pick: Candidate) -> int:
        """Return the devices of the mesh."""
        return job.world.ranks

    def origin_of(self, job: Job, first: Measurement) -> tuple[str, str]:
        """Return the origin and the source; virtual devices are emulated."""
        if is_virtual(job):
            return str(Origin.EMULATED), f"{job.world.ranks} {VIRTUAL}"
        return super().origin_of(job, first)
