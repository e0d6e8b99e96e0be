"""Hugging Face accelerate's YAML for ``accelerate launch --config_file``: processes and precision.

It has no key for buckets and accumulation: those are arguments in the script's code.

Source: accelerate/commands/config/config_args.py of 1.15 (ClusterConfig).
"""

import json

from mi300bench.export import ddp
from mi300bench.export.source import Exported, ExportSource, comments


def export(source: ExportSource) -> Exported:
    """Return a config file. A note has code to paste for what the file cannot express."""
    is_cpu = source.tuned.device_kind == "cpu"
    several = "MULTI_CPU" if is_cpu else "MULTI_GPU"
    values = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": several if source.ranks.ranks > 1 else "NO",
        "use_cpu": is_cpu,
        "num_machines": 1,
        "machine_rank": 0,
        "num_processes": source.ranks.ranks,
        "mixed_precision": "bf16" if source.run.is_bf16 else "no",
        "debug": False,
    }
    chosen = "".join(
        f"{name}={json.dumps(value)}, " for name, value in ddp.keywords(source).items()
    )
    code = f"Accelerator(gradient_accumulation_steps={source.run.batch.accumulate}, "
    code += (
        f"kwargs_handlers=[DistributedDataParallelKwargs({chosen}gradient_as_bucket_view=True)])"
    )
    notes = [
        f"set buckets and accumulation in your script: {code}",
        f"set micro-batch {source.run.batch.micro_batch} and seq_len {source.run.batch.seq_len} "
        "in your script's DataLoader",
        *source.model_notes(),
    ]
    if "bucket_cap_mb_list" in chosen:
        notes.append(
            "DistributedDataParallelKwargs has no list of caps: "
            "use the snippet of --to ddp to wrap the model"
        )
    text = comments([*source.head(), *notes]) + "".join(
        f"{name}: {json.dumps(value)}\n" for name, value in values.items()
    )
    return Exported(text=text, notes=tuple(notes))
