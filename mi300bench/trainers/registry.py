"""The trainers, found by name and imported only when one is used. Their shapes need no framework."""

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from mi300bench.errors import NodeError, PlanError
from mi300bench.schema.model import ModelDescription

TRAINERS = {"zaya1": "mi300bench_training.zaya1", "lora405b": "mi300bench_training.lora405b"}
# Those of one process for all devices of a machine, under JAX; the others have a process a rank, under torch's launcher.
SINGLE_PROCESS = ("lora405b",)


def module(trainer: str, name: str) -> ModuleType:
    """Return the module `name` of a trainer (config, shapes, train); an unknown trainer lists the known."""
    if trainer not in TRAINERS:
        raise PlanError(f"there is no trainer {trainer!r}", hint=f"one of {', '.join(TRAINERS)}")
    try:
        return importlib.import_module(f"{TRAINERS[trainer]}.{name}")
    except ModuleNotFoundError as cause:
        if cause.name and cause.name.startswith("mi300bench"):
            raise
        raise NodeError(
            f"the trainer {trainer} needs the package {cause.name}, which is not installed",
            hint=f"pip install 'mi300bench[{'jax' if trainer in SINGLE_PROCESS else 'torch'}]', or use an image that has it",
        ) from cause


def preset_config(trainer: str, preset: str) -> Any:
    """Return the trainer's config of a preset."""
    return module(trainer, "config").preset(preset)


def tables(trainer: str, config: Any) -> dict[str, Any]:
    """Return a trainer's config as plain tables."""
    answer: dict[str, Any] = module(trainer, "config").to_tables(config)
    return answer


def from_tables(trainer: str, document: Mapping[str, Any]) -> Any:
    """Return a trainer's config from plain tables."""
    return module(trainer, "config").from_tables(document)


def describe(trainer: str, config: Any) -> ModelDescription:
    """Return the model of a trainer's config as numbers; allocates nothing."""
    answer: ModelDescription = module(trainer, "shapes").describe(config)
    return answer
