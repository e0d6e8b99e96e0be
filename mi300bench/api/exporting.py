"""A tuned config as the settings of another framework."""

from collections.abc import Iterator, Mapping
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.export.targets import TARGETS, Exported, export_to
from mi300bench.schema.config import TunedConfig
from mi300bench.trainers.registry import spec_of

__all__ = ["TARGETS", "Exported", "export"]


def export(tuned: TunedConfig, target: str) -> Exported:
    """Return `tuned` for `target`, with notes on what that target cannot express.

    Raises `PlanError` if the trainer cannot be exported to `target`, or if the config lacks a key:
    a default in its place would look as if it were tuned.
    """
    spec = spec_of(tuned.trainer)
    config = spec.from_tables(tuned.config)
    missing = next(_missing(spec.to_tables(config), tuned.config), "")
    if missing:
        raise PlanError(
            f"the config has no {missing!r}",
            hint=f"write a new config: mi300bench tune {tuned.trainer}",
        )
    return export_to(target, tuned, spec.settings(config, tuned.ranks or 1))


def _missing(whole: Mapping[str, Any], given: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """Yield the dotted keys of `whole` that `given` lacks."""
    for name, value in whole.items():
        if name not in given:
            yield f"{where}{name}"
        elif isinstance(value, Mapping):
            yield from _missing(value, given[name], f"{name}.")
