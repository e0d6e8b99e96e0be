"""DeepSpeed's JSON: bucket sizes are in elements, and only ZeRO stages 1 and 2 read them.

Source: deepspeed/runtime/zero/config.py and engine.py of version 0.19. Stage 0 reduces in pieces of
5e8 elements, whatever the config says.
"""

import json
from typing import Any

from mi300bench.export.source import Exported, ExportSource


def document(source: ExportSource) -> dict[str, Any]:
    """Return the config that DeepSpeed reads."""
    return {
        "train_batch_size": source.run.batch.global_batch,
        "train_micro_batch_size_per_gpu": source.run.batch.micro_batch,
        "gradient_accumulation_steps": source.run.batch.accumulate,
        "gradient_clipping": source.run.optimizer.clip,
        "bf16": {"enabled": source.run.is_bf16},
        # The buckets were measured with float32 gradients.
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
    """Return ``ds_config.json``. JSON has no comments, so the text has no notes."""
    notes = [
        *source.head(),
        f"bucket sizes are in elements: {source.bucket_mib:g} MiB of float32 are "
        f"{source.bucket_elements:,} elements",
        "ZeRO stage 1 is set, because stage 0 ignores the bucket size; "
        "the step was measured with DistributedDataParallel, not with ZeRO",
        f"train_batch_size is for {source.ranks.ranks} rank(s)",
        f"the warm-up of {source.run.optimizer.warmup_steps} steps and the cosine decay "
        "are not expressed: set a scheduler in your script",
        *source.bucket_notes(),
        *source.model_notes(),
    ]
    return Exported(text=json.dumps(document(source), indent=2) + "\n", notes=tuple(notes))
