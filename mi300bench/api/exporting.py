"""A tuned config as the settings of another framework."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.export.targets import TARGETS, Exported, export_to
from mi300bench.schema.config import TunedConfig
from mi300bench.trainers.registry import spec_of

__all__ = ["TARGETS", "Exported", "export"]


def export(tuned: TunedConfig, target: str) -> Exported:
    """Return `tuned` for `target`, with notes on what that target cannot express.

    A key that the config lacks, because it is older than the key, takes the trainer's default, and
    a note says so. Raises `PlanError` if a whole table is missing, or if the trainer cannot be
    exported to `target`.
    """
    spec = spec_of(tuned.trainer)
    config = spec.from_tables(tuned.config)
    whole = spec.to_tables(config)
    lacking = next((name for name in whole if name not in tuned.config), "")
    if lacking:
        raise PlanError(
            f"the config has no {lacking!r}",
            hint=f"write a new config: mi300bench tune {tuned.trainer}",
        )
    exported = export_to(target, tuned, spec.settings(config, tuned.ranks or 1))
    notes = [
        f"the config has no {key}: the trainer's default {value!r} is used, which was not tuned"
        for key, value in _defaults(whole, tuned.config)
    ]
    return replace(exported, notes=(*notes, *exported.notes))


def _defaults(
    whole: Mapping[str, Any], given: Mapping[str, Any], where: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys of `whole` that `given` lacks, with their values."""
    for name, value in whole.items():
        if name not in given:
            yield f"{where}{name}", value
        elif isinstance(value, Mapping):
            yield from _defaults(value, given[name], f"{name}.")
