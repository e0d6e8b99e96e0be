"""MaxText's YAML config for its LoRA training: the mesh is its ici axes, the batch is per device and part.

Source: src/maxtext/configs/{base.yml,types.py,post_train/lora_module_path.yml} of MaxText, commit e591f30.
"""

import json
from collections.abc import Mapping

from mi300bench.errors import PlanError
from mi300bench.export.exported import Exported, comments
from mi300bench.export.meshed import MeshSettings

MODELS = {"8b": "llama3.1-8b", "70b": "llama3.1-70b", "405b": "llama3.1-405b"}
# PEFT's names of the linear layers as MaxText calls them.
MODULES = {
    "q_proj": "self_attention/query",
    "k_proj": "self_attention/key",
    "v_proj": "self_attention/value",
    "o_proj": "self_attention/out",
    "gate_proj": "mlp/wi_0",
    "up_proj": "mlp/wi_1",
    "down_proj": "mlp/wo",
}
# What is kept for the backward pass; MaxText always recomputes something.
REMATS = {"full": "full", "dots": "minimal_with_context", "none": "minimal_with_context"}


def values(settings: MeshSettings) -> dict[str, object]:
    """Return MaxText's keys with their values."""
    adapted = [MODULES[name] for name in settings.targets if name in MODULES]
    if not adapted:
        raise PlanError(
            "MaxText has no place for adapters on the head alone",
            hint="lora.targets of layers, or --to env",
        )
    found: dict[str, object] = {
        "base_config": "base.yml",
        "hardware": "cpu" if settings.tuned.device_kind == "cpu" else "gpu",
        "ici_data_parallelism": settings.dp,
        "ici_fsdp_parallelism": settings.fsdp,
        "ici_tensor_parallelism": settings.mp,
        "per_device_batch_size": settings.batch / settings.accumulate / settings.devices,
        "gradient_accumulation_steps": settings.accumulate,
        "max_target_length": settings.seq_len,
        "packing": True,
        "remat_policy": REMATS[settings.remat],
        "scan_layers": True,
        "dtype": "bfloat16" if settings.is_bf16 else "float32",
        "weight_dtype": "bfloat16" if settings.is_bf16 else "float32",
        "use_sft": True,
        "lora": {
            "enable_lora": True,
            "lora_rank": settings.rank,
            "lora_alpha": settings.alpha,
            "lora_module_path": f"decoder/layers/.*({'|'.join(adapted)})",
        },
        "opt_type": "adamw",
        "learning_rate": settings.lr,
        "learning_rate_final_fraction": 0.0,
        "warmup_steps_fraction": min(1.0, settings.warmup_steps / settings.steps),
        "adam_b1": settings.betas[0],
        "adam_b2": settings.betas[1],
        "adam_weight_decay": settings.weight_decay,
        "gradient_clipping_threshold": settings.clip,
        "steps": settings.steps,
        "init_weights_seed": settings.seed,
    }
    return ({"model_name": MODELS[settings.preset]} if settings.preset in MODELS else {}) | found


def export(settings: MeshSettings) -> Exported:
    """Return a YAML file for ``python -m maxtext.trainers.post_train.sft.train_sft FILE``."""
    notes = [
        "the data set is not expressed: set dataset_type and its keys, as post_train/sft.yml has them",
        "mp is ici_tensor_parallelism, fsdp ici_fsdp_parallelism; on several nodes set the dcn axes too",
        "per_device_batch_size counts all devices, those of a tensor-parallel group as well",
        f"compute.attention_block={settings.attention_block} is not expressed: MaxText has its own kernels",
    ]
    if settings.preset not in MODELS:
        notes.append(
            f"the preset {settings.preset} is no model of MaxText: set model_name or its sizes"
        )
    if settings.remat == "none":
        notes.append(
            "remat none is not expressed: minimal_with_context keeps the most that MaxText keeps"
        )
    if settings.unroll > 1:
        notes.append(
            f"compute.unroll={settings.unroll} is not expressed: MaxText scans layers one by one"
        )
    if settings.loss_chunk:
        notes.append(
            f"compute.loss_chunk={settings.loss_chunk} is not expressed as tokens: see num_vocab_tiling"
        )
    if settings.is_rslora:
        notes.append(
            f"rslora is not expressed: set lora_alpha to {settings.alpha * settings.rank**0.5:g} for the same scale"
        )
    if settings.dropout:
        notes.append(f"lora.dropout={settings.dropout:g} is not expressed")
    lost = [name for name in settings.targets if name not in MODULES]
    if lost:
        notes.append(f"adapters on {', '.join(lost)} are not expressed by lora_module_path")
    if settings.weights or settings.adapter:
        notes.append(
            "weights and adapter to start from are not expressed: convert them and set load_parameters_path"
        )
    if settings.memory_fraction or settings.combine_bytes:
        notes.append("what JAX is told before it starts is in --to env")
    return Exported(
        text=comments([*settings.head(), *notes]) + _yaml(values(settings)), notes=tuple(notes)
    )


def _yaml(table: Mapping[str, object], indent: str = "") -> str:
    """Return a table as YAML; JSON's values are YAML's."""
    lines = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{key}:\n{_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}\n")
    return "".join(lines)
