"""A tuned config as another framework's settings."""

from mi300bench.export.targets import TARGETS, Exported, export_to
from mi300bench.schema.config import TunedConfig
from mi300bench.trainers.registry import spec_of

__all__ = ["TARGETS", "Exported", "export"]


def export(tuned: TunedConfig, target: str) -> Exported:
    """Return `tuned` for `target`, with notes on what that target cannot express.

    `PlanError` lists the targets that the trainer has settings for.
    """
    spec = spec_of(tuned.trainer)
    run = spec.settings(spec.from_tables(tuned.config), tuned.ranks or 1)
    return export_to(target, tuned, run)
