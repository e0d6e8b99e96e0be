"""Megatron-LM's arguments, one a line: ``--ddp-bucket-size`` is in parameters, and void without ``--overlap-grad-reduce``.

Source: megatron/core/distributed/distributed_data_parallel.py and megatron/training/arguments.py of 0.16.
"""

from mi300bench.export.exported import Exported, Settings, comments


def arguments(settings: Settings) -> dict[str, str]:
    """Return the options with their values; an empty value is a switch."""
    options = {
        "--micro-batch-size": str(settings.micro_batch),
        "--global-batch-size": str(settings.global_batch),
        "--seq-length": str(settings.seq_len),
        "--max-position-embeddings": str(settings.seq_len),
        "--train-iters": str(settings.steps),
        "--seed": str(settings.seed),
        "--lr": f"{settings.lr:g}",
        "--min-lr": f"{settings.lr / 3:g}",
        "--lr-decay-style": "cosine",
        "--lr-warmup-iters": str(settings.warmup_steps),
        "--adam-beta1": f"{settings.betas[0]:g}",
        "--adam-beta2": f"{settings.betas[1]:g}",
        "--weight-decay": f"{settings.weight_decay:g}",
        "--clip-grad": f"{settings.clip:g}",
        "--ddp-bucket-size": str(settings.bucket_elements),
        "--overlap-grad-reduce": "",
        "--accumulate-allreduce-grads-in-fp32": "",
    }
    if settings.is_bf16:
        options["--bf16"] = ""
    if settings.recompute == "block":
        options |= {
            "--recompute-granularity": "full",
            "--recompute-method": "uniform",
            "--recompute-num-layers": "1",
        }
    return options


def export(settings: Settings) -> Exported:
    """Return an arguments file for ``pretrain_gpt.py``."""
    notes = [
        f"--ddp-bucket-size is in parameters: {settings.bucket_mib:g} MiB of float32 gradients are {settings.bucket_elements:,}",
        "--overlap-grad-reduce must stay: without it Megatron ignores the bucket size and reduces everything at once",
        f"--global-batch-size holds for {settings.ranks} data-parallel rank(s), without tensor or pipeline parallelism",
        *settings.bucket_notes(),
        *settings.compute_notes(expresses_recompute=True),
    ]
    lines = "".join(
        f"{name} {value}".rstrip() + "\n" for name, value in arguments(settings).items()
    )
    text = (
        comments(
            [
                *settings.head(),
                "use: pretrain_gpt.py $(grep -v '^#' FILE) and the model's own arguments",
                *notes,
            ]
        )
        + lines
    )
    return Exported(text=text, notes=tuple(notes))
