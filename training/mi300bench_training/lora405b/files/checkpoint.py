"""A checkpoint of this trainer: the adapters in PEFT's files, and the optimizer.

PEFT can load ``adapter_config.json`` and ``adapter_model.safetensors``; ``optimizer.safetensors``
has the optimizer's moments. Dropout depends only on seed and step, so it has no state. Arrays are
saved unsharded, so a run can continue on another mesh.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mi300bench_training import checkpoint
from mi300bench_training.checkpoint import SavedRun
from mi300bench_training.history import RunHistory
from mi300bench_training.lora405b import multihost, sharding
from mi300bench_training.lora405b.config import LoraRunConfig
from mi300bench_training.lora405b.data import Cursor
from mi300bench_training.lora405b.files import peft_files

OPTIMIZER = "optimizer.safetensors"
# The settings that must be equal for a run to continue; mesh and compute may differ.
SAME = ("model", "lora", "data", "optimizer", "precision", "seed", "steps", "weights", "adapter")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraRun:
    """A run at a step: its state on the host, its position in the text, and its history."""

    state: Any
    cursor: Cursor
    history: RunHistory


def save(folder: Path, config: LoraRunConfig, run: LoraRun, *, text: str) -> None:
    """Write a checkpoint of the run; `text` is the digest of its training text."""

    def write_state(partial: Path) -> None:
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        adapters, optimizer = run.state["adapters"], run.state["optimizer"]
        try:
            peft_files.save(partial, adapters, config.model, config.lora, base=config.weights)
            save_file(_by_path(optimizer), str(partial / OPTIMIZER))
        except SafetensorError as cause:
            raise OSError(str(cause)) from cause

    saved = SavedRun(
        config=checkpoint.plain(asdict(config)),
        text=text,
        cursor=asdict(run.cursor),
        history=run.history,
    )
    checkpoint.save(folder, saved, write_state)


def save_from_first(folder: Path, config: LoraRunConfig, run: LoraRun, *, text: str) -> None:
    """Gather the state and save it in process 0; if that fails, every process raises."""
    state = multihost.gathered(run.state)
    failure: Exception | None = None
    if jax.process_index() == 0:
        try:
            save(
                folder,
                config,
                LoraRun(state=state, cursor=run.cursor, history=run.history),
                text=text,
            )
        except Exception as cause:  # noqa: BLE001 - the other processes have to stop as well
            failure = cause
    multihost.require_all(failure, "saving the checkpoint")


def check(folder: Path) -> None:
    """Raise `RecordError` if the newest checkpoint is damaged."""
    path = checkpoint.newest(folder)
    if path is not None:
        checkpoint.read(path)


def load(folder: Path, config: LoraRunConfig, fresh: Any, *, text: str) -> LoraRun | None:
    """Return the newest checkpoint, with the structure of the `fresh` state; None without one.

    `PlanError` if it belongs to another config or to another text.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = checkpoint.newest(folder)
    if path is None:
        return None
    saved = checkpoint.read(path)
    now = checkpoint.plain(asdict(config))
    checkpoint.require_same(path, saved, config=now, keys=SAME, text=text)
    adapters = peft_files.load(path, config.model, config.lora)
    with checkpoint.reading(path):
        try:
            arrays = load_file(str(path / OPTIMIZER))
        except SafetensorError as cause:
            raise ValueError(str(cause)) from cause
        optimizer = jax.tree_util.tree_map_with_path(
            lambda keys, leaf: (
                arrays[sharding.path_of(keys)].astype(leaf.dtype).reshape(leaf.shape)
            ),
            fresh["optimizer"],
        )
        cursor = Cursor(**saved.cursor)
    state = {"adapters": adapters, "optimizer": optimizer, "step": np.int32(saved.step)}
    return LoraRun(state=state, cursor=cursor, history=saved.history)


def _by_path(tree: Any) -> dict[str, np.ndarray[Any, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {sharding.path_of(keys): np.asarray(leaf) for keys, leaf in leaves}
