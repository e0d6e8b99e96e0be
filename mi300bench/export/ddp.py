"""PyTorch DistributedDataParallel: ``bucket_cap_mb`` and ``bucket_cap_mb_list`` are MiB."""

import json

from mi300bench.errors import PlanError
from mi300bench.schema.config import FRAMEWORK_DEFAULT, TunedConfig


def ddp_keywords(tuned: TunedConfig) -> dict[str, object]:
    """Return the keyword arguments for DistributedDataParallel; empty where torch's default is kept."""
    caps = tuned.config.get("ddp", {}).get("bucket_cap_mb")
    if caps is None:
        raise PlanError(f"the config of {tuned.trainer} has no ddp.bucket_cap_mb to export", hint="tune it: mi300bench tune zaya1")
    if caps == FRAMEWORK_DEFAULT:
        return {}
    return {"bucket_cap_mb_list": list(caps)} if isinstance(caps, list) else {"bucket_cap_mb": caps}


def to_python(tuned: TunedConfig) -> str:
    """Return a Python snippet that wraps a model as the trainer does, with what it rests on as comments."""
    keywords = ddp_keywords(tuned)
    lines = [
        f"# mi300bench export --to ddp: {tuned.trainer} on {tuned.node} ({tuned.device}), {tuned.origin} data",
        "# bucket sizes are MiB; gradients are float32 and live in the buckets (gradient_as_bucket_view)",
    ]
    if tuned.confirmed is not None:
        ratio = tuned.confirmed.ratio
        lines.append(
            f"# confirmed: {tuned.confirmed.candidate} MiB against the default: {tuned.confirmed.verdict}, "
            f"{ratio.mid:.3f} of its step ({ratio.low:.3f} to {ratio.high:.3f}) on {tuned.confirmed.runs} fresh runs each"
        )
    else:
        lines.append("# not confirmed by fresh runs: mi300bench autotune does that")
    if not keywords:
        lines.append("# the default bucket size was kept: leave bucket_cap_mb unset")
    if "bucket_cap_mb_list" in keywords:
        lines.append("# bucket_cap_mb_list needs torch 2.13 or newer")
    arguments = "".join(f", {name}={json.dumps(value)}" for name, value in keywords.items())
    lines.append("from torch.nn.parallel import DistributedDataParallel")
    lines.append(f"model = DistributedDataParallel(model, gradient_as_bucket_view=True{arguments})")
    return "\n".join(lines) + "\n"


TARGETS = {"ddp": to_python}


def export(tuned: TunedConfig, target: str) -> str:
    """Return `tuned` as text for `target`; an unknown target lists the known."""
    if target not in TARGETS:
        raise PlanError(f"there is no exporter for {target!r}", hint=f"one of {', '.join(TARGETS)}")
    return TARGETS[target](tuned)
