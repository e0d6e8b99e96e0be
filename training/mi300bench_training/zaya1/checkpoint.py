"""A checkpoint of this trainer: ``state.pt`` with model, optimizer and balancer.

Random state is not in it, because batches and weights depend on seed and step alone. Nor are DDP's
buckets: they may differ between the runs.
"""

import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from mi300bench.errors import RecordError

from mi300bench_training import checkpoint
from mi300bench_training.checkpoint import SavedRun
from mi300bench_training.history import RunHistory
from mi300bench_training.zaya1.config import ZayaConfig
from mi300bench_training.zaya1.step import Stepper

STATE = "state.pt"
# The settings that must be equal for a run to continue.
SAME = ("model", "data", "optimizer", "precision", "seed", "steps", "ranks")
# The single file of versions up to 0.1. It is read if there is no newer checkpoint.
SINGLE_FILE = "zaya1.pt"
SINGLE_FILE_KEYS = {
    "config",
    "model",
    "optimizer",
    "biases",
    "balancer",
    "step",
    "ranks",
    "seconds",
    "losses",
}


def _config_of(config: ZayaConfig, ranks: int) -> dict[str, Any]:
    return checkpoint.plain(asdict(config) | {"ranks": ranks})


def save(folder: Path, stepper: Stepper, history: RunHistory, *, ranks: int, text: str) -> None:
    """Write a checkpoint of the run; `text` is the digest of its training text."""

    def write_state(partial: Path) -> None:
        state = {
            "model": stepper.model.state_dict(),
            "optimizer": stepper.optimizer.state_dict(),
            "biases": stepper.balancer.biases,
            "balancer": stepper.balancer.step_of.state_dict(),
        }
        try:
            torch.save(state, partial / STATE)
        except RuntimeError as cause:  # torch raises it for a full disk
            raise OSError(str(cause)) from cause

    run = SavedRun(config=_config_of(stepper.config, ranks), text=text, history=history)
    checkpoint.save(folder, run, write_state)


def check(folder: Path) -> None:
    """Raise `RecordError` if the newest checkpoint is damaged."""
    path = checkpoint.newest(folder)
    if path is not None:
        checkpoint.read(path)
    elif (folder / SINGLE_FILE).exists():
        _read_single_file(folder / SINGLE_FILE)


def load(folder: Path, stepper: Stepper, *, ranks: int, text: str) -> RunHistory:
    """Load the newest checkpoint into `stepper`; return its history, which is empty without one."""
    path = checkpoint.newest(folder)
    if path is not None:
        run, state = checkpoint.read(path), None
    elif (path := folder / SINGLE_FILE).exists():
        run, state = _read_single_file(path)
    else:
        return RunHistory()
    config = _config_of(stepper.config, ranks)
    checkpoint.require_same(path, run, config=config, keys=SAME, text=text)
    with checkpoint.reading(path):
        if state is None:
            state = torch.load(path / STATE, map_location="cpu", weights_only=True)
        stepper.model.load_state_dict(state["model"])
        stepper.optimizer.load_state_dict(state["optimizer"])
        stepper.balancer.biases.copy_(state["biases"])
        stepper.balancer.step_of.load_state_dict(state["balancer"])
    return run.history


def _read_single_file(path: Path) -> tuple[SavedRun, dict[str, Any]]:
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        missing = SINGLE_FILE_KEYS - set(state)
    except (OSError, RuntimeError, TypeError, EOFError, pickle.UnpicklingError) as cause:
        raise RecordError(
            f"the checkpoint {path} is damaged: {cause}",
            hint="remove it to start a new run, or restore it from a backup",
        ) from cause
    if missing:
        raise RecordError(
            f"the checkpoint {path} lacks {sorted(missing)}", hint="remove it to start a new run"
        )
    config = checkpoint.plain(state["config"] | {"ranks": state["ranks"]})
    history = RunHistory(losses=list(state["losses"]), seconds=list(state["seconds"]))
    return SavedRun(config=config, text="", history=history), state
