"""torchtitan's TOML job config (0.2; later versions configure in Python): it has no bucket size at all.

Its data parallelism is FSDP2, where the wrapped modules decide what is gathered, or replication with fixed buckets.
Source: torchtitan/config/job_config.py of 0.2.2.
"""

from mi300bench.export.exported import Exported, Settings, comments, toml


def export(settings: Settings) -> Exported:
    """Return a job config file."""
    tables: dict[str, dict[str, object]] = {
        "training": {
            "local_batch_size": settings.micro_batch,
            "global_batch_size": settings.global_batch,
            "seq_len": settings.seq_len,
            "steps": settings.steps,
            "max_norm": settings.clip,
            "mixed_precision_param": "bfloat16" if settings.is_bf16 else "float32",
            "mixed_precision_reduce": "float32",
        },
        "debug": {"seed": settings.seed},
        "parallelism": {
            "data_parallel_replicate_degree": settings.ranks,
            "data_parallel_shard_degree": 1,
        },
        "activation_checkpoint": {"mode": "full" if settings.recompute == "block" else "none"},
        "optimizer": {
            "name": "AdamW",
            "lr": settings.lr,
            "beta1": settings.betas[0],
            "beta2": settings.betas[1],
            "weight_decay": settings.weight_decay,
        },
        "lr_scheduler": {
            "warmup_steps": settings.warmup_steps,
            "decay_type": "cosine",
            "min_lr_factor": round(1 / 3, 4),
        },
    }
    notes = [
        "the bucket size is not expressed: torchtitan has none (FSDP2 reduces what each wrapped module holds; its replication "
        f"has a fixed one); measured here: {settings.bucket_mib:g} MiB",
        "this is the TOML form of torchtitan 0.2; later versions are configured in Python",
        *settings.compute_notes(expresses_recompute=True),
    ]
    return Exported(text=comments([*settings.head(), *notes]) + toml(tables), notes=tuple(notes))
