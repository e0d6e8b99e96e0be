"""The trainers by name. A trainer is imported when one is asked for; its spec needs no framework."""

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
    """Return what a trainer declares; an unknown name lists the known."""
    if trainer not in TRAINERS:
        raise PlanError(f"there is no trainer {trainer!r}", hint=f"one of {', '.join(TRAINERS)}")
    spec: TrainerSpec = importlib.import_module(f"{TRAINERS[trainer]}.spec").TRAINER
    return spec


def function_of(spec: TrainerSpec, module: str, name: str) -> Callable[..., Any]:
    """Return a function of a trainer's code; `NodeError` names the package that it needs and that is missing."""
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
            hint=f"pip install 'mi300bench[{spec.framework}]', or use an image that has it",
        ) from cause
