"""What is tuned of a trainer of one process: its config on a mesh of devices, and what may be changed about it.

On a CPU several devices are virtual and share the processor. Then only what one device does can be measured and confirmed: the
step of its share of the batch. The mesh follows from curves and plans alone, and says so.
"""

from dataclasses import dataclass, replace
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.schema.record import Scalar, World
from mi300bench.strategies.job import require_confirming, require_known
from mi300bench.strategies.mesh import predictor
from mi300bench.strategies.mesh.traffic import Mesh, meshes
from mi300bench.trainers import registry


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshJob:
    """A trainer's config in a world of so many devices, how it is confirmed, and what limits the search.

    `memory_limit` is bytes a device, None for no limit known. `only` names the knobs to weigh, all where it is empty.
    `precisions` are to be weighed beside the config's own. `keep_shapes` keeps the length of sequences.
    """

    trainer: str
    config: Any
    world: World
    rounds: int = 3
    candidates: int = 2
    memory_limit: float | None = None
    keep_shapes: bool = False
    precisions: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_confirming(rounds=self.rounds, candidates=self.candidates)
        require_known(self.only, predictor.KNOBS)
        if self.config.mesh.devices != self.world.ranks:
            raise PlanError(
                f"a mesh of {self.config.mesh.devices} devices does not cover {self.world.ranks}",
                hint="--ranks, or another mesh",
            )

    def weighs(self, knob: str) -> bool:
        """Return whether `knob` is to be weighed."""
        return (not self.only or knob in self.only) and not (knob == "shapes" and self.keep_shapes)

    @property
    def devices(self) -> int:
        """Return how many devices the mesh has."""
        return self.world.ranks

    @property
    def is_virtual(self) -> bool:
        """Return whether the devices share one processor."""
        return self.world.device == "cpu" and self.devices > 1

    @property
    def mesh(self) -> Mesh:
        """Return the default's mesh."""
        mesh = self.config.mesh
        return Mesh(dp=mesh.dp, fsdp=mesh.fsdp, mp=mesh.mp)

    @property
    def seen_world(self) -> World:
        """Return the world in which a step can be seen: one device where they are virtual, else all."""
        return replace(self.world, ranks=1) if self.is_virtual else self.world

    def with_keys(self, keys: dict[str, Any]) -> Any:
        """Return the trainer's config with `keys` set."""
        return registry.module(self.trainer, "config").override_all(self.config, keys)

    def is_possible(self, keys: dict[str, Any]) -> bool:
        """Return whether the config can have `keys`: a mesh has to divide the batch."""
        try:
            self.with_keys(keys)
        except PlanError:
            return False
        return True

    def seen(self, keys: dict[str, Any]) -> Any:
        """Return the config that runs where a step can be seen: on virtual devices one device's share of the batch."""
        config = self.with_keys(keys)
        if not self.is_virtual:
            return config
        parts = config.data.accumulate
        alone = {predictor.DP: 1, predictor.FSDP: 1, predictor.MP: 1}
        share = max(1, config.data.batch // self.devices // parts) * parts
        return registry.module(self.trainer, "config").override_all(
            config, alone | {predictor.BATCH: share}
        )

    def step_params(self, keys: dict[str, Any]) -> dict[str, Scalar]:
        """Return the parameters of the point that trains whole steps with `keys` set, where a step can be seen."""
        config = self.seen(keys)
        mesh = {
            predictor.DP: config.mesh.dp,
            predictor.FSDP: config.mesh.fsdp,
            predictor.MP: config.mesh.mp,
        }
        rest = {
            name: v
            for name, v in keys.items()
            if name not in (*predictor.MESH_KEYS, predictor.BATCH, predictor.LENGTH)
        }
        params: dict[str, Scalar] = registry.module(self.trainer, "config").point_params(
            config, mesh | rest
        )
        return params

    def possible_meshes(self) -> list[Mesh]:
        """Return the meshes that divide the model and the batch, the default first."""
        shapes = registry.module(self.trainer, "shapes")
        found = [self.mesh]
        for mesh in meshes(self.devices):
            keys = {predictor.DP: mesh.dp, predictor.FSDP: mesh.fsdp, predictor.MP: mesh.mp}
            if (
                mesh != self.mesh
                and self.is_possible(keys)
                and shapes.divides(self.with_keys(keys))
            ):
                found.append(mesh)
        return found if self.weighs("mesh") else found[:1]
