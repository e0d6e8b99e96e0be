"""The table of export targets: those of trainers whose ranks exchange gradients, and those of a trainer on a mesh."""

from collections.abc import Callable, Mapping

from mi300bench.errors import PlanError
from mi300bench.export import accelerate, ddp, deepspeed, env, launch, maxtext, megatron, torchtitan
from mi300bench.export.exported import Exported, Settings, settings_of
from mi300bench.export.meshed import MeshSettings, mesh_settings_of
from mi300bench.schema.config import TunedConfig

TARGETS: Mapping[str, Callable[[Settings], Exported]] = {
    "ddp": ddp.export,
    "deepspeed": deepspeed.export,
    "megatron": megatron.export,
    "torchtitan": torchtitan.export,
    "accelerate": accelerate.export,
    "env": env.export,
    "torchrun": launch.torchrun,
    "sbatch": launch.sbatch,
}
MESH_TARGETS: Mapping[str, Callable[[MeshSettings], Exported]] = {
    "maxtext": maxtext.export,
    "env": env.export_mesh,
}
ALL_TARGETS = tuple(dict.fromkeys((*TARGETS, *MESH_TARGETS)))


def export(tuned: TunedConfig, target: str) -> Exported:
    """Return `tuned` for `target`; an unknown target, or one that its trainer has nothing for, lists the known."""
    is_meshed = "mesh" in tuned.config
    known = MESH_TARGETS if is_meshed else TARGETS
    if target not in known:
        raise PlanError(
            f"there is no exporter of {tuned.trainer} for {target!r}",
            hint=f"one of {', '.join(known)}",
        )
    if is_meshed:
        return MESH_TARGETS[target](mesh_settings_of(tuned))
    return TARGETS[target](settings_of(tuned))
