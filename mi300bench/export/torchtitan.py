"""torchtitan's TOML job config (0.2; later versions use Python configs). It has no bucket size.

Its data parallelism is FSDP2, which communicates per wrapped module, or replication with buckets of
a fixed size.
Source: torchtitan/config/job_config.py of 0.2.2.
"""

import tomli_w

from mi300bench.export.source import Exported, ExportSource, comments
from mi300bench.schema.run_settings import Recompute


def export(source: ExportSource) -> Exported:
    """Return a job config file."""
    tables: dict[str, dict[str, object]] = {
        "training": {
            "local_batch_size": source.run.batch.micro_batch,
            "global_batch_size": source.run.batch.global_batch,
            "seq_len": source.run.batch.seq_len,
            "steps": source.run.steps,
            "max_norm": source.run.optimizer.clip,
            "mixed_precision_param": "bfloat16" if source.run.is_bf16 else "float32",
            "mixed_precision_reduce": "float32",
        },
        "debug": {"seed": source.run.seed},
        "parallelism": {
            "data_parallel_replicate_degree": source.ranks.ranks,
            "data_parallel_shard_degree": 1,
        },
        "activation_checkpoint": {
            "mode": "full" if source.run.recompute is Recompute.LAYERS else "none"
        },
        "optimizer": {
            "name": "AdamW",
            "lr": source.run.optimizer.lr,
            "beta1": source.run.optimizer.betas[0],
            "beta2": source.run.optimizer.betas[1],
            "weight_decay": source.run.optimizer.weight_decay,
        },
        "lr_scheduler": {
            "warmup_steps": source.run.optimizer.warmup_steps,
            "decay_type": "cosine",
            "min_lr_factor": round(1 / 3, 4),
        },
    }
    notes = [
        f"the bucket size of {source.bucket_mib:g} MiB is not expressed: torchtitan has no such "
        "setting (FSDP2 reduces per wrapped module, replication has a fixed bucket size)",
        "this is the TOML config of torchtitan 0.2; later versions use Python configs",
        *source.model_notes(expresses_recompute=True),
    ]
    return Exported(
        text=comments([*source.head(), *notes]) + tomli_w.dumps(tables), notes=tuple(notes)
    )
