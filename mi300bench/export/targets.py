"""The table of export targets: the function that writes each, and the settings that it needs.

To add a target, add a module to this package and a line to the table. A trainer can be exported to
a target if its settings have all groups that the target needs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mi300bench.errors import PlanError
from mi300bench.export import (
    accelerate,
    ddp,
    deepspeed,
    env,
    launch,
    maxtext,
    megatron,
    torchtitan,
)
from mi300bench.export.source import Exported, ExportSource
from mi300bench.schema.config import TunedConfig
from mi300bench.schema.run_settings import RunSettings

__all__ = ["TARGETS", "ExportSource", "Exported", "export_to"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTarget:
    """The function that writes a target's text, and the groups of `RunSettings` it needs."""

    write: Callable[[ExportSource], Exported]
    needs: tuple[str, ...] = ()


IN_BUCKETS = ("ranks", "buckets")
TARGETS: Mapping[str, ExportTarget] = {
    "ddp": ExportTarget(write=ddp.export, needs=IN_BUCKETS),
    "deepspeed": ExportTarget(write=deepspeed.export, needs=IN_BUCKETS),
    "megatron": ExportTarget(write=megatron.export, needs=IN_BUCKETS),
    "torchtitan": ExportTarget(write=torchtitan.export, needs=IN_BUCKETS),
    "accelerate": ExportTarget(write=accelerate.export, needs=IN_BUCKETS),
    "maxtext": ExportTarget(write=maxtext.export, needs=("mesh", "adapters")),
    "env": ExportTarget(write=env.export),
    "torchrun": ExportTarget(write=launch.torchrun, needs=("ranks",)),
    "sbatch": ExportTarget(write=launch.sbatch, needs=("ranks",)),
}


def targets_of(run: RunSettings) -> tuple[str, ...]:
    """Return the targets that a run can be exported to."""
    return tuple(
        name
        for name, target in TARGETS.items()
        if all(getattr(run, group) is not None for group in target.needs)
    )


def export_to(target: str, tuned: TunedConfig, run: RunSettings) -> Exported:
    """Return `tuned` for `target`; raise `PlanError` if the trainer cannot be exported to it."""
    known = targets_of(run)
    if target not in known:
        raise PlanError(
            f"{tuned.trainer} cannot be exported to {target!r}",
            hint=f"choose one of {', '.join(known)}",
        )
    return TARGETS[target].write(ExportSource(tuned=tuned, run=run))
