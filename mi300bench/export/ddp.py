"""PyTorch DistributedDataParallel: ``bucket_cap_mb`` and ``bucket_cap_mb_list`` are MiB."""

import json

from mi300bench.export.source import Exported, ExportSource, comments


def keywords(source: ExportSource) -> dict[str, object]:
    """Return the keyword arguments for DistributedDataParallel; empty where torch's default is kept."""
    caps = source.buckets.caps_mib
    if not caps:
        return {}
    return {"bucket_cap_mb_list": list(caps)} if len(caps) > 1 else {"bucket_cap_mb": caps[0]}


def export(source: ExportSource) -> Exported:
    """Return a Python snippet that wraps a model as the trainer does."""
    chosen = keywords(source)
    lines = [
        *source.head(),
        "bucket sizes are MiB; gradients are float32 and live in the buckets (gradient_as_bucket_view)",
    ]
    if not chosen:
        lines.append("the default bucket size was kept: leave bucket_cap_mb unset")
    if "bucket_cap_mb_list" in chosen:
        lines.append("bucket_cap_mb_list needs torch 2.13 or newer")
    notes = source.model_notes()
    if source.run.batch.accumulate > 1:
        notes.append(
            f"{source.run.batch.accumulate} micro-batches a step: run all but the last under model.no_sync()"
        )
    arguments = "".join(f", {name}={json.dumps(value)}" for name, value in chosen.items())
    code = (
        "from torch.nn.parallel import DistributedDataParallel\n"
        f"model = DistributedDataParallel(model, gradient_as_bucket_view=True{arguments})\n"
    )
    return Exported(text=comments([*lines, *notes]) + code, notes=tuple(notes))
