"""PyTorch DistributedDataParallel: ``bucket_cap_mb`` and ``bucket_cap_mb_list`` are MiB."""

import json

from mi300bench.export.source import Exported, ExportSource, comments


def keywords(source: ExportSource) -> dict[str, object]:
    """Return the bucket arguments of DistributedDataParallel; empty if torch's default is kept."""
    caps = source.buckets.caps_mib
    if not caps:
        return {}
    return {"bucket_cap_mb_list": list(caps)} if len(caps) > 1 else {"bucket_cap_mb": caps[0]}


def export(source: ExportSource) -> Exported:
    """Return a Python snippet that wraps a model as the trainer does."""
    chosen = keywords(source)
    lines = [
        *source.head(),
        "bucket sizes are in MiB of float32 gradients; "
        "gradient_as_bucket_view=True keeps the gradients in the buckets",
    ]
    if not chosen:
        lines.append("torch's default bucket size was kept: do not set bucket_cap_mb")
    if "bucket_cap_mb_list" in chosen:
        lines.append("bucket_cap_mb_list needs torch 2.13 or newer")
    notes = source.model_notes()
    if source.run.batch.accumulate > 1:
        notes.append(
            f"a step has {source.run.batch.accumulate} micro-batches: "
            "run all but the last under model.no_sync()"
        )
    arguments = "".join(f", {name}={json.dumps(value)}" for name, value in chosen.items())
    code = (
        "from torch.nn.parallel import DistributedDataParallel\n"
        f"model = DistributedDataParallel(model, gradient_as_bucket_view=True{arguments})\n"
    )
    return Exported(text=comments([*lines, *notes]) + code, notes=tuple(notes))
