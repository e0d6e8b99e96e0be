"""Saving and loading a run: adapters as PEFT keeps them, optimizer, step, cursor; whole or not at all, the last few kept.

``step-00000050/`` has ``adapter_config.json`` and ``adapter_model.safetensors`` (which PEFT opens), ``optimizer.safetensors`` and
``run.json`` with the config, cursor, losses and a digest of each file. A folder is written under another name and renamed when
it is whole. A damaged one is named, and the one before it is there. Dropout depends on seed and step alone, so it needs no state
of its own. Arrays are saved whole, so that a run goes on on another mesh.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from mi300bench.errors import NodeError, PlanError, RecordError

from mi300bench_training.lora405b import peft_files, sharding
from mi300bench_training.lora405b.config import TrainConfig
from mi300bench_training.lora405b.data import Cursor

OPTIMIZER, RUN = "optimizer.safetensors", "run.json"
KEPT = 3
# What must be equal for a run to go on; the mesh, compute and logging may differ.
SAME = ("model", "lora", "data", "optimizer", "precision", "seed", "steps", "weights", "adapter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A run as it was: state on the host, cursor, and the history of its record."""

    state: Any
    cursor: Cursor
    losses: list[float]
    seconds: list[float]
    series: dict[str, list[float]]


def whole(tree: Any) -> Any:
    """Return a tree of arrays on the host, gathered from all processes where there are several."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        return multihost_utils.process_allgather(tree, tiled=True)
    return jax.device_get(tree)


def _digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _flat(tree: Any) -> dict[str, np.ndarray[Any, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {sharding.path_of(keys): np.asarray(leaf) for keys, leaf in leaves}


def save(folder: Path, config: TrainConfig, now: Saved, *, text: str, keep: int = KEPT) -> None:
    """Write a run as it is now, trained on the text of this digest; `NodeError` where that fails, older ones stay whole."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    state, step = now.state, int(now.state["step"])
    place, partial = folder / f"step-{step:08d}", folder / f".partial-{step:08d}"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        peft_files.save(partial, state["adapters"], config.model, config.lora, base=config.weights)
        save_file(_flat(state["optimizer"]), str(partial / OPTIMIZER))
        files = (peft_files.CONFIG, peft_files.TENSORS, OPTIMIZER)
        told = {
            "config": json.loads(json.dumps(asdict(config))),
            "step": step,
            "cursor": asdict(now.cursor),
            "text": text,
            "losses": now.losses,
            "seconds": now.seconds,
            "series": now.series,
            "digests": {name: _digest(partial / name) for name in files},
        }
        with (partial / RUN).open("w") as file:
            json.dump(told, file)
            file.flush()
            os.fsync(file.fileno())
        shutil.rmtree(place, ignore_errors=True)
        partial.rename(place)
    except (OSError, SafetensorError) as cause:
        shutil.rmtree(partial, ignore_errors=True)
        raise NodeError(
            f"the checkpoint {place} cannot be written: {cause}",
            hint="free space or another --checkpoint; the one before it is whole, --resume continues from there",
        ) from cause
    for old in found(folder)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


def found(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir())


# What run.json holds, each of this type.
FORM: Mapping[str, type] = {
    "config": dict, "step": int, "cursor": dict, "text": str, "losses": list, "seconds": list, "series": dict, "digests": dict,
}  # fmt: skip


def read(path: Path) -> Mapping[str, Any]:
    """Return what ``run.json`` of a checkpoint says; `RecordError` names the file that is damaged."""
    try:
        told = json.loads((path / RUN).read_text())
        wrong = [
            name
            for name, kind in FORM.items()
            if not isinstance(told, dict) or not isinstance(told.get(name), kind)
        ]
        if wrong:
            raise ValueError(f"{RUN} says nothing usable of {wrong[0]}")
        for name, digest in told["digests"].items():
            if _digest(path / name) != digest:
                raise ValueError(f"{name} is not what was written")
    except (OSError, ValueError) as cause:
        raise RecordError(
            f"the checkpoint {path} is damaged: {cause}", hint=_before(path)
        ) from cause
    return dict(told)


def _before(path: Path) -> str:
    older = [other.name for other in found(path.parent) if other < path]
    return (
        f"remove {path.name}: --resume then continues from {older[-1]}"
        if older
        else "remove it to start anew"
    )


def load(folder: Path, config: TrainConfig, fresh: Any, *, text: str) -> Saved | None:
    """Return the newest checkpoint, shaped as the `fresh` state; None where there is none.

    `PlanError` where it belongs to another config or, by its digest, to another `text`.
    """
    from safetensors.numpy import load_file

    paths = found(folder)
    if not paths:
        return None
    told = read(paths[-1])
    now = json.loads(json.dumps(asdict(config)))
    for name in SAME:
        if told["config"].get(name) != now[name]:
            raise PlanError(
                f"the checkpoint {paths[-1]} was made with {name}={told['config'].get(name)!r}, this run has {now[name]!r}",
                hint="another --checkpoint folder, or the config it was made with",
            )
    if told["text"] != text:
        raise PlanError(
            f"the text of {config.data.path or 'CPython'} is not what the checkpoint {paths[-1]} was trained on",
            hint="the text as it was, or another --checkpoint folder",
        )
    adapters = peft_files.load(paths[-1], config.model, config.lora)
    try:
        flat = load_file(str(paths[-1] / OPTIMIZER))
        optimizer = jax.tree_util.tree_map_with_path(
            lambda keys, leaf: flat[sharding.path_of(keys)].astype(leaf.dtype).reshape(leaf.shape),
            fresh["optimizer"],
        )
        cursor = Cursor(**told["cursor"])
    except (KeyError, TypeError, ValueError) as cause:
        raise RecordError(
            f"the checkpoint {paths[-1]} is of another form: {cause}", hint=_before(paths[-1])
        ) from cause
    return Saved(
        state={"adapters": adapters, "optimizer": optimizer, "step": np.int32(told["step"])},
        cursor=cursor,
        losses=list(told["losses"]),
        seconds=list(told["seconds"]),
        series=dict(told["series"]),
    )
