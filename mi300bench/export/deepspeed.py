"""DeepSpeed's JSON: bucket sizes are elements, not bytes, and only ZeRO stages 1 and 2 read them.

Source: deepspeed/runtime/zero/config.py and engine.py of 0.19: stage 0 reduces in fixed pieces of 5e8 elements.
"""

import json
from typing import Any

from mi300bench.export.exported import Exported, Settings


def document(settings: Settings) -> dict[str, Any]:
    """Return the configuration as DeepSpeed reads it."""
    return {
        "train_batch_size": settings.global_batch,
        "train_micro_batch_size_per_gpu": settings.micro_batch,
        "gradient_accumulation_steps": settings.accumulate,
        "gradient_clipping": settings.clip,
        "bf16": {"enabled": settings.is_bf16},
        # Buckets were measured with float32 gradients on the wire.
        "communication_data_type": "fp32",
        "optimizer": {
            "type": "AdamW",
            "params": {
                "lr": settings.lr,
                "betas": list(settings.betas),
                "weight_decay": settings.weight_decay,
            },
        },
        "zero_optimization": {
            "stage": 1,
            "reduce_bucket_size": settings.bucket_elements,
            "allgather_bucket_size": settings.bucket_elements,
            "overlap_comm": True,
            "contiguous_gradients": True,
        },
    }


def export(settings: Settings) -> Exported:
    """Return ``ds_config.json``. JSON has no comments, so the notes are outside."""
    notes = [
        *settings.head(),
        f"bucket sizes are elements: {settings.bucket_mib:g} MiB of float32 are {settings.bucket_elements:,}",
        "ZeRO stage 1, because stage 0 ignores the bucket size; its step was not measured here, DistributedDataParallel's was",
        f"train_batch_size holds for {settings.ranks} rank(s)",
        f"the warm-up of {settings.warmup_steps} steps and the cosine are not expressed: give a scheduler in code",
        *settings.bucket_notes(),
        *settings.compute_notes(expresses_recompute=False),
    ]
    return Exported(text=json.dumps(document(settings), indent=2) + "\n", notes=tuple(notes))
