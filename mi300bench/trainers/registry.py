"""The trainers by name. A trainer is imported when it is used; its spec needs no framework."""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from mi300bench.errors import NodeError, PlanError
from mi300bench.probes.catalog import TRAINERS
from mi300bench.schema.trainer import TrainerSpec


def names() -> tuple[str, ...]:
    """Return the names of all trainers."""
    return tuple(TRAINERS)


def spec_of(trainer: str) -> TrainerSpec:
    """Return what a trainer declares; raise `PlanError` if there is no such trainer."""
    if trainer not in TRAINERS:
        raise PlanError(
            f"there is no trainer {trainer!r}", hint=f"choose one of {', '.join(TRAINERS)}"
        )
    spec: TrainerSpec = importlib.import_module(f"{TRAINERS[trainer]}.spec").TRAINER
    return spec


def function_of(spec: TrainerSpec, module: str, name: str) -> Callable[..., Any]:
    """Return a function of a trainer's code; raise `NodeError` if a package is missing."""
    function: Callable[..., Any] = getattr(_module(spec, module), name)
    return function


def _module(spec: TrainerSpec, name: str) -> ModuleType:
    try:
        return importlib.import_module(f"{spec.package}.{name}")
    except ModuleNotFoundError as cause:
        if cause.name and cause.name.startswith("mi300bench"):
            raise
        raise NodeError(
            f"the trainer {spec.name} needs the package {cause.name}, which is not installed",
            hint=f"pip install 'mi300bench[{spec.framework}]', or use a container that has it",
        ) from cause
