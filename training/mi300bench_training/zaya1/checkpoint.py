"""Saving and loading a run so that a kill loses at most the steps since the last save.

A checkpoint is written beside the old one and renamed over it: there is always a whole one. Random state is
not in it, because batches and weights depend on seed and step alone.
"""

import os
import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from mi300bench.errors import NodeError, PlanError, RecordError

from mi300bench_training.zaya1.config import TrainConfig
from mi300bench_training.zaya1.step import Stepper

NAME = "zaya1.pt"


def save(
    folder: Path,
    stepper: Stepper,
    *,
    step: int,
    ranks: int,
    seconds: list[float],
    losses: list[float],
) -> None:
    """Write the state after `step` steps, atomically."""
    path, partial = folder / NAME, folder / f"{NAME}.partial"
    state = {
        "config": asdict(stepper.config),
        "model": stepper.model.state_dict(),
        "optimizer": stepper.optimizer.state_dict(),
        "biases": stepper.balancer.biases,
        "balancer": stepper.balancer.step_of.state_dict(),
        "step": step,
        "ranks": ranks,
        "seconds": seconds,
        "losses": losses,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
    except (OSError, RuntimeError) as cause:
        raise NodeError(
            f"the checkpoint {path} cannot be written: {cause}",
            hint="free space or another --checkpoint; the one before it is whole, --resume continues from there",
        ) from cause


def read(folder: Path) -> dict[str, Any] | None:
    """Return the saved state, or None where nothing was saved; `RecordError` where it is damaged."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        missing = {
            "config",
            "model",
            "optimizer",
            "biases",
            "balancer",
            "step",
            "ranks",
            "seconds",
            "losses",
        } - set(state)
    except (OSError, RuntimeError, TypeError, EOFError, pickle.UnpicklingError) as cause:
        raise RecordError(
            f"the checkpoint {path} is damaged: {cause}",
            hint="remove it to start anew, or restore it from a copy",
        ) from cause
    if missing:
        raise RecordError(
            f"the checkpoint {path} lacks {sorted(missing)}", hint="remove it to start anew"
        )
    return state


def load(folder: Path, stepper: Stepper, *, ranks: int) -> tuple[int, list[float], list[float]]:
    """Put the saved state into `stepper`; return the steps done, their seconds and losses: (0, [], []) if none are."""
    state = read(folder)
    if state is None:
        return 0, [], []
    _require_same_run(state, stepper.config, ranks, folder / NAME)
    stepper.model.load_state_dict(state["model"])
    stepper.optimizer.load_state_dict(state["optimizer"])
    stepper.balancer.biases.copy_(state["biases"])
    stepper.balancer.step_of.load_state_dict(state["balancer"])
    return int(state["step"]), list(state["seconds"]), list(state["losses"])


def _require_same_run(state: dict[str, Any], config: TrainConfig, ranks: int, path: Path) -> None:
    """Raise where the checkpoint is of another model, text, seed, schedule or number of ranks; buckets may differ."""
    saved, now = state["config"] | {"ranks": state["ranks"]}, asdict(config) | {"ranks": ranks}
    for name in ("model", "data", "optimizer", "precision", "seed", "steps", "ranks"):
        if saved.get(name) != now[name]:
            raise PlanError(
                f"the checkpoint {path} was made with {name}={saved.get(name)!r}, this run has {now[name]!r}",
                hint="another --checkpoint folder, or the config it was made with",
            )
