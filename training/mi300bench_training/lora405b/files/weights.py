"""Frozen weights from Hugging Face safetensors, without the whole model on the host.

The host has one device's part of one stacked tensor at a time. `model.safetensors.index.json` names
the file of each tensor. Files are memory-mapped, and each device's part is read when JAX requests
it. Hugging Face's matrices are [out, in]; ours are [in, out] with layers stacked.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from mi300bench.errors import RecordError

from mi300bench_training.lora405b import model as llama
from mi300bench_training.lora405b import sharding
from mi300bench_training.lora405b.config import LoraRunConfig
from mi300bench_training.lora405b.files.peft_files import PLACES

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
NORMS = {"attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
WHOLE = {
    "embed": "model.embed_tokens.weight",
    "norm": "model.norm.weight",
    "lm_head": "lm_head.weight",
}
TURNED = (*PLACES, "lm_head")


class Files:
    """The tensors of a folder by name; each file is opened at its first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: dict[Path, Any] = {}
        index = folder / INDEX
        try:
            if index.exists():
                self.place = {
                    name: folder / file
                    for name, file in json.loads(index.read_text())["weight_map"].items()
                }
            else:
                self.place = dict.fromkeys(self._open(folder / SINGLE).keys(), folder / SINGLE)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as cause:
            raise RecordError(
                f"{folder} has no readable {INDEX} or {SINGLE}: {cause}",
                hint="give a folder of a Hugging Face model with safetensors",
            ) from cause

    def _open(self, path: Path) -> Any:
        from safetensors import SafetensorError, safe_open

        if path not in self.opened:
            try:
                self.opened[path] = safe_open(str(path), framework="flax")
            except (OSError, SafetensorError) as cause:
                raise RecordError(
                    f"{path} cannot be read: {cause}",
                    hint="download it again; it may be truncated",
                ) from cause
        return self.opened[path]

    def piece(self, name: str) -> Any:
        """Return a tensor's slice object, which reads only the requested part."""
        if name not in self.place:
            raise RecordError(
                f"{self.folder} has no tensor {name}",
                hint="give a checkpoint of the same model",
            )
        return self._open(self.place[name]).get_slice(name)


def file_names(config: LoraRunConfig, path: str) -> list[str]:
    """Return Hugging Face's names of the tensors at a path of our tree."""
    name = path.removeprefix("layers.")
    if not path.startswith("layers."):
        return [WHOLE[name]]
    inner = PLACES.get(name) or NORMS[name]
    return [f"model.layers.{index}.{inner}.weight" for index in range(config.model.layers)]


def require_all(files: Files, config: LoraRunConfig, tree: Any) -> None:
    """Raise `RecordError` for tensors that are missing, unknown, or of another shape."""
    wanted: set[str] = set()
    for keys, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        path = sharding.path_of(keys)
        names = file_names(config, path)
        wanted.update(names)
        shape = leaf.shape[1:] if path.startswith("layers.") else leaf.shape
        expected = list(reversed(shape)) if path.split(".")[-1] in TURNED else list(shape)
        for name in names:
            shape = list(files.piece(name).get_shape())
            if shape != expected:
                raise RecordError(
                    f"{name} has the shape {shape}, but {config.preset} needs {expected}",
                    hint="give the --preset of this checkpoint, or another checkpoint",
                )
    extra = sorted(set(files.place) - wanted)
    if extra:
        raise RecordError(
            f"{len(extra)} tensors are unknown, such as {extra[0]}",
            hint="give a Llama 3 checkpoint without adapters",
        )


def load(folder: Path, config: LoraRunConfig, mesh: Mesh) -> Any:
    """Return the frozen weights on the mesh; each device's part is read separately."""
    files, tree = Files(folder), llama.empty(config)
    require_all(files, config, tree)
    where = sharding.shardings(mesh, tree)

    def one(keys: Any, leaf: jax.ShapeDtypeStruct, spot: Any) -> jax.Array:
        path = sharding.path_of(keys)
        return jax.make_array_from_callback(
            leaf.shape, spot, _reader(files, file_names(config, path), path, leaf.dtype)
        )

    return jax.tree_util.tree_map_with_path(one, tree, where)


def _reader(
    files: Files, names: list[str], path: str, kind: Any
) -> Callable[[Any], np.ndarray[Any, Any]]:
    """Return the function that reads a part of a tensor, given by its slices."""
    is_stacked, is_turned = path.startswith("layers."), path.split(".")[-1] in TURNED

    def matrix(name: str, index: tuple[slice, ...]) -> Any:
        piece = files.piece(name)
        part = piece[index[1], index[0]].T if is_turned else piece[index]
        return np.asarray(jnp.asarray(part, kind))

    def read(index: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        if not is_stacked:
            return np.asarray(matrix(names[0], index))
        chosen = names[index[0]]
        first = matrix(chosen[0], index[1:])
        stacked = np.empty((len(chosen), *first.shape), first.dtype)
        stacked[0] = first
        for place, name in enumerate(chosen[1:], start=1):
            stacked[place] = matrix(name, index[1:])
        return stacked

    return read


def load_or_draw(config: LoraRunConfig, mesh: Mesh) -> Any:
    """Return the frozen weights on the mesh: those of ``config.weights``, or random ones."""
    if config.weights:
        return load(Path(config.weights), config, mesh)
    return random_weights(config, mesh)


def random_weights(config: LoraRunConfig, mesh: Mesh) -> Any:
    """Return random weights, created on each device."""
    where = sharding.shardings(mesh, llama.empty(config))
    return jax.jit(lambda key: llama.draw(config, key), out_shardings=where)(
        jax.random.key(config.seed)
    )
