"""Megatron-LM's arguments, one on each line.

``--ddp-bucket-size`` is in parameters, and has no effect without ``--overlap-grad-reduce``.
Source: megatron/core/distributed/distributed_data_parallel.py and megatron/training/arguments.py of
version 0.16.
"""

from mi300bench.export.source import Exported, ExportSource, comments
from mi300bench.schema.run_settings import Recompute


def arguments(source: ExportSource) -> dict[str, str]:
    """Return the options with their values; a switch has an empty value."""
    options = {
        "--micro-batch-size": str(source.run.batch.micro_batch),
        "--global-batch-size": str(source.run.batch.global_batch),
        "--seq-length": str(source.run.batch.seq_len),
        "--max-position-embeddings": str(source.run.batch.seq_len),
        "--train-iters": str(source.run.steps),
        "--seed": str(source.run.seed),
        "--lr": f"{source.run.optimizer.lr:g}",
        "--min-lr": f"{source.run.optimizer.lr / 3:g}",
        "--lr-decay-style": "cosine",
        "--lr-warmup-iters": str(source.run.optimizer.warmup_steps),
        "--adam-beta1": f"{source.run.optimizer.betas[0]:g}",
        "--adam-beta2": f"{source.run.optimizer.betas[1]:g}",
        "--weight-decay": f"{source.run.optimizer.weight_decay:g}",
        "--clip-grad": f"{source.run.optimizer.clip:g}",
        "--ddp-bucket-size": str(source.bucket_elements),
        "--overlap-grad-reduce": "",
        "--accumulate-allreduce-grads-in-fp32": "",
    }
    if source.run.is_bf16:
        options["--bf16"] = ""
    if source.run.recompute is Recompute.LAYERS:
        options |= {
            "--recompute-granularity": "full",
            "--recompute-method": "uniform",
            "--recompute-num-layers": "1",
        }
    return options


def export(source: ExportSource) -> Exported:
    """Return an arguments file for ``pretrain_gpt.py``."""
    notes = [
        f"--ddp-bucket-size is in parameters: {source.bucket_mib:g} MiB of float32 gradients are "
        f"{source.bucket_elements:,} parameters",
        "keep --overlap-grad-reduce: without it Megatron ignores the bucket size "
        "and reduces all gradients at once",
        f"--global-batch-size is for {source.ranks.ranks} data-parallel rank(s), "
        "without tensor or pipeline parallelism",
        *source.bucket_notes(),
        *source.model_notes(expresses_recompute=True),
    ]
    lines = "".join(f"{name} {value}".rstrip() + "\n" for name, value in arguments(source).items())
    text = (
        comments(
            [
                *source.head(),
                "use: pretrain_gpt.py $(grep -v '^#' FILE), and the arguments of your model",
                *notes,
            ]
        )
        + lines
    )
    return Exported(text=text, notes=tuple(notes))
