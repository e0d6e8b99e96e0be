"""MaxText's YAML config for LoRA: its ici axes are the mesh, its batch is per device.

Source: src/maxtext/configs/{base.yml,types.py,post_train/lora_module_path.yml} of MaxText, commit
e591f30.
"""

import json
from collections.abc import Mapping

from mi300bench.errors import PlanError
from mi300bench.export.source import Exported, ExportSource, comments
from mi300bench.schema.run_settings import Recompute

MODELS = {"8b": "llama3.1-8b", "70b": "llama3.1-70b", "405b": "llama3.1-405b"}
# MaxText's names of the linear layers, by PEFT's.
MODULES = {
    "q_proj": "self_attention/query",
    "k_proj": "self_attention/key",
    "v_proj": "self_attention/value",
    "o_proj": "self_attention/out",
    "gate_proj": "mlp/wi_0",
    "up_proj": "mlp/wi_1",
    "down_proj": "mlp/wo",
}
# MaxText's policies by what the backward pass recomputes; MaxText always recomputes something.
REMATS = {
    Recompute.LAYERS: "full",
    Recompute.ALL_BUT_PRODUCTS: "minimal_with_context",
    Recompute.NOTHING: "minimal_with_context",
}


def values(source: ExportSource) -> dict[str, object]:
    """Return MaxText's keys with their values."""
    run = source.run
    mesh, adapters, batch, rule = run.mesh, run.adapters, run.batch, run.optimizer
    assert mesh is not None and adapters is not None
    adapted = [MODULES[name] for name in adapters.targets if name in MODULES]
    if not adapted:
        raise PlanError(
            f"MaxText cannot express these adapters: none of {', '.join(adapters.targets)} "
            "is a layer that it adapts",
            hint="add another layer to lora.targets, such as q_proj, or export --to env",
        )
    dtype = "bfloat16" if run.is_bf16 else "float32"
    named = {"model_name": MODELS[run.preset]} if run.preset in MODELS else {}
    return named | {
        "base_config": "base.yml",
        "hardware": "cpu" if source.tuned.device_kind == "cpu" else "gpu",
        "ici_data_parallelism": mesh.dp,
        "ici_fsdp_parallelism": mesh.fsdp,
        "ici_tensor_parallelism": mesh.mp,
        "per_device_batch_size": batch.global_batch / batch.accumulate / mesh.devices,
        "gradient_accumulation_steps": batch.accumulate,
        "max_target_length": batch.seq_len,
        "packing": True,
        "remat_policy": REMATS[run.recompute],
        "scan_layers": True,
        "dtype": dtype,
        "weight_dtype": dtype,
        "use_sft": True,
        "lora": {
            "enable_lora": True,
            "lora_rank": adapters.rank,
            "lora_alpha": adapters.alpha,
            "lora_module_path": f"decoder/layers/.*({'|'.join(adapted)})",
        },
        "opt_type": "adamw",
        "learning_rate": rule.lr,
        "learning_rate_final_fraction": rule.final_share,
        "warmup_steps_fraction": min(1.0, rule.warmup_steps / run.steps),
        "adam_b1": rule.betas[0],
        "adam_b2": rule.betas[1],
        "adam_weight_decay": rule.weight_decay,
        "gradient_clipping_threshold": rule.clip,
        "steps": run.steps,
        "init_weights_seed": run.seed,
    }


def export(source: ExportSource) -> Exported:
    """Return a YAML file for ``python -m maxtext.trainers.post_train.sft.train_sft FILE``."""
    notes = _notes(source)
    text = comments([*source.head(), *notes]) + _yaml(values(source))
    return Exported(text=text, notes=tuple(notes))


def _notes(source: ExportSource) -> list[str]:
    run, adapters, client = source.run, source.run.adapters, source.run.jax_client
    assert adapters is not None
    notes = [
        "the data set is not expressed: set dataset_type and its keys, see post_train/sft.yml",
        "mp is ici_tensor_parallelism, fsdp is ici_fsdp_parallelism; "
        "on several nodes also set the dcn axes",
        "per_device_batch_size is per device of the whole mesh, tensor-parallel devices included",
        *source.model_setting_notes(),
    ]
    lost = [name for name in adapters.targets if name not in MODULES]
    further = {
        f"{run.preset} is not a model of MaxText: set model_name, or the sizes of the model": (
            run.preset not in MODELS
        ),
        "keeping all activations is not expressed: "
        "minimal_with_context keeps the most that MaxText can keep": (
            run.recompute is Recompute.NOTHING
        ),
        "rslora is not expressed: "
        f"set lora_alpha to {adapters.alpha * adapters.rank**0.5:g} for the same scale": (
            adapters.is_rslora
        ),
        f"lora.dropout={adapters.dropout:g} is not expressed": bool(adapters.dropout),
        f"adapters on {', '.join(lost)} are not expressed by lora_module_path": bool(lost),
        "initial weights and adapter are not expressed: "
        "convert them, and set load_parameters_path": bool(adapters.weights or adapters.adapter),
        "the variables that JAX reads at its start are in --to env": client is not None
        and bool(client.memory_fraction or client.combine_bytes),
    }
    return [*notes, *(note for note, applies in further.items() if applies)]


def _yaml(table: Mapping[str, object], indent: str = "") -> str:
    """Return a table as YAML. Its values are written as JSON, which YAML includes."""
    lines = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{key}:\n{_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}\n")
    return "".join(lines)
