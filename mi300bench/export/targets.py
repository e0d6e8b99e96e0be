"""The table of export targets."""

from collections.abc import Callable, Mapping

from mi300bench.errors import PlanError
from mi300bench.export import accelerate, ddp, deepspeed, env, launch, megatron, torchtitan
from mi300bench.export.exported import Exported, Settings, settings_of
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


def export(tuned: TunedConfig, target: str) -> Exported:
    """Return `tuned` for `target`; an unknown target lists the known."""
    if target not in TARGETS:
        raise PlanError(f"there is no exporter for {target!r}", hint=f"one of {', '.join(TARGETS)}")
    return TARGETS[target](settings_of(tuned))
