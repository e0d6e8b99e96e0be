"""DeepSpeed's JSON: bucket sizes are elements, not bytes, and only ZeRO stages 1 and 2 read them.

Source: deepspeed/runtime/zero/config.py and engine.py of 0.19: stage 0 reduces in fixed pieces of 5e8 elements.
"""

import json
from typing import Any

from mi300bench.export.source import Exported, ExportSource


def document(source: ExportSource) -> dict[str, Any]:
    """Return the configuration as DeepSpeed reads it."""
    return {
        "train_batch_size": source.run.batch.global_batch,
        "train_micro_batch_size_per_gpu": source.run.batch.micro_batch,
        "gradient_accumulation_steps": source.run.batch.accumulate,
        "gradient_clipping": source.run.optimizer.clip,
        "bf16": {"enabled": source.run.is_bf16},
        # Buckets were measured with float32 gradients on the wire.
        "communication_data_type": "fp32",
        "optimizer": {
            "type": "AdamW",
            "params": {
                "lr": source.run.optimizer.lr,
                "betas": list(source.run.optimizer.betas),
                "weight_decay": source.run.optimizer.weight_decay,
            },
        },
        "zero_optimization": {
            "stage": 1,
            "reduce_bucket_size": source.bucket_elements,
            "allgather_bucket_size": source.bucket_elements,
            "overlap_comm": True,
            "contiguous_gradients": True,
        },
    }


def export(source: ExportSource) -> Exported:
    """Return ``ds_config.json``. JSON has no comments, so the notes are outside."""
    notes = [
        *source.head(),
        f"bucket sizes are elements: {source.bucket_mib:g} MiB of float32 are {source.bucket_elements:,}",
        "ZeRO stage 1, because stage 0 ignores the bucket size; its step was not measured here, DistributedDataParallel's was",
        f"train_batch_size holds for {source.ranks.ranks} rank(s)",
        f"the warm-up of {source.run.optimizer.warmup_steps} steps and the cosine are not expressed: give a scheduler in code",
        *source.bucket_notes(),
        *source.model_notes(),
    ]
    return Exported(text=json.dumps(document(source), indent=2) + "\n", notes=tuple(notes))
