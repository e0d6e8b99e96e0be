"""Adapters in PEFT's files: ``adapter_config.json`` and ``adapter_model.safetensors``.

PEFT's matrices are transposed: its A is [rank, in] and its B [out, rank], one pair for each layer.
Ours are [in, rank] and [rank, out], with layers stacked.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from mi300bench.errors import PlanError, RecordError
from numpy.typing import NDArray

from mi300bench_training.lora405b import shapes
from mi300bench_training.lora405b.config import LlamaConfig, LoraConfig

Tree = dict[str, Any]
CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
PLACES = {name: f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")} | {
    name: f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")
}
PARTS = {"a": "lora_A", "b": "lora_B"}


def names(model: LlamaConfig, target: str, part: str) -> list[str]:
    """Return PEFT's name of each matrix of a target, by layer; the head has one name."""
    if target == "lm_head":
        return [f"base_model.model.lm_head.{PARTS[part]}.weight"]
    return [
        f"base_model.model.model.layers.{i}.{PLACES[target]}.{PARTS[part]}.weight"
        for i in range(model.layers)
    ]


def to_peft(adapters: Tree, model: LlamaConfig, lora: LoraConfig) -> dict[str, NDArray[np.float32]]:
    """Return adapters by PEFT's names."""
    tensors: dict[str, NDArray[np.float32]] = {}
    for target in lora.targets:
        pair = adapters["lm_head"] if target == "lm_head" else adapters["layers"][target]
        for part in PARTS:
            matrices = np.asarray(pair[part], np.float32)
            stacked = matrices[None] if target == "lm_head" else matrices
            for name, matrix in zip(names(model, target, part), stacked, strict=True):
                tensors[name] = np.ascontiguousarray(matrix.T)
    return tensors


def save(
    folder: Path, adapters: Tree, model: LlamaConfig, lora: LoraConfig, *, base: str = ""
) -> None:
    """Write adapters that ``PeftModel.from_pretrained(model, folder)`` can load."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "lora_dropout": lora.dropout,
        "use_rslora": lora.rslora,
        "target_modules": list(lora.targets),
        "bias": "none",
        "inference_mode": True,
    }
    save_file(to_peft(adapters, model, lora), str(folder / TENSORS), metadata={"format": "pt"})
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n")


# PEFT's settings that change the result of an adapter and that we do not support, with the values
# that have no effect.
ONLY: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "use_dora": (False, None),
    "fan_in_fan_out": (False, None),
    "lora_bias": (False, None),
    "modules_to_save": (None, []),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "layers_to_transform": (None, []),
    "layer_replication": (None, []),
}


def load_config(folder: Path) -> LoraConfig:
    """Return the adapter settings of a PEFT folder; `RecordError` for an unsupported kind."""
    path = folder / CONFIG
    try:
        table = json.loads(path.read_text())
        for key, values in ONLY.items():
            if table.get(key, values[0]) not in values:
                raise RecordError(
                    f"{path}: {key} must be {values[0]!r} (got {table[key]!r})",
                    hint="give an adapter without this setting; it is not supported",
                )
        targets = table["target_modules"]
        unknown = (
            [targets]
            if isinstance(targets, str)
            else [name for name in targets if name not in (*PLACES, "lm_head")]
        )
        if unknown:
            raise RecordError(
                f"{path}: target_modules has {unknown[0]!r}, which is not supported",
                hint=f"give an adapter for some of {', '.join(PLACES)}, lm_head",
            )
        return LoraConfig(
            rank=int(table["r"]),
            alpha=float(table["lora_alpha"]),
            dropout=float(table.get("lora_dropout", 0.0)),
            rslora=bool(table.get("use_rslora", False)),
            targets=tuple(sorted(targets, key=list((*PLACES, "lm_head")).index)),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as cause:
        raise RecordError(
            f"{path} is not a PEFT adapter config: {cause}",
            hint="give a folder that PEFT's save_pretrained wrote",
        ) from cause


def require_same(folder: Path, lora: LoraConfig) -> None:
    """Raise `PlanError` if a folder's adapters do not have the shapes and scale of the config."""
    theirs = load_config(folder)
    for name in ("rank", "alpha", "rslora", "targets"):
        kept, wanted = getattr(theirs, name), getattr(lora, name)
        if (set(kept) != set(wanted)) if name == "targets" else kept != wanted:
            raise PlanError(
                f"the adapter in {folder} has {name}={kept!r}, but the config has "
                f"lora.{name}={wanted!r}",
                hint=f"set lora.{name} in the config to the adapter's value",
            )


def load(folder: Path, model: LlamaConfig, lora: LoraConfig) -> Tree:
    """Return the adapters of a PEFT folder; `RecordError` names a tensor that does not fit."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = folder / TENSORS
    try:
        tensors = load_file(str(path))
    except (OSError, SafetensorError) as cause:
        raise RecordError(
            f"{path} cannot be read: {cause}",
            hint="restore it from a copy; it may be truncated",
        ) from cause
    tree: Tree = {"layers": {}}
    for parameter in shapes.adapters(model, lora):
        *place, target, part = parameter.name.split(".")
        wanted = names(model, target, part)
        missing = [name for name in wanted if name not in tensors]
        if missing:
            raise RecordError(
                f"{path} has no tensor {missing[0]}",
                hint="give an adapter of the same model and targets",
            )
        matrices = [tensors.pop(name).T for name in wanted]
        shape = parameter.shape[-2:]
        for name, matrix in zip(wanted, matrices, strict=True):
            if matrix.shape != shape:
                raise RecordError(
                    f"{path}: {name} must have the shape {shape[::-1]} (got {matrix.T.shape})",
                    hint="give an adapter of the same model and rank",
                )
        holder = tree["layers"] if place else tree
        holder.setdefault(target, {})[part] = (
            np.stack(matrices).astype(np.float32) if place else matrices[0].astype(np.float32)
        )
    if tensors:
        raise RecordError(
            f"{path} has {len(tensors)} tensors that the config does not have, such as "
            f"{min(tensors)}",
            hint="add their layers to lora.targets",
        )
    return tree
