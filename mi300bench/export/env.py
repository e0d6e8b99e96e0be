"""Environment variables, as a shell reads them: what held while the curves and the fresh runs were measured, and what was tuned."""

import shlex
from collections.abc import Mapping, Sequence

from mi300bench.export.exported import Exported, Settings, comments
from mi300bench.export.meshed import MeshSettings
from mi300bench.hw import xla_flags

# Set by the launcher for its own process, or true only on the machine that measured.
NOT_CARRIED = ("TORCHELASTIC_", "TORCH_NCCL_ASYNC", "OMP_NUM_THREADS")


def variables(settings: Settings) -> dict[str, str]:
    """Return the variables by name."""
    carried = {k: v for k, v in settings.tuned.environment.items() if not k.startswith(NOT_CARRIED)}
    return carried | ({"OMP_NUM_THREADS": str(settings.threads)} if settings.threads else {})


def export(settings: Settings) -> Exported:
    """Return ``export NAME=value`` lines."""
    chosen = variables(settings)
    notes = [
        "environment variables express neither batch nor buckets nor how a step is computed: --to ddp, torchtitan, ... do"
    ]
    if not chosen:
        notes.append(
            "nothing was set beyond the defaults while this was measured, so nothing needs to be"
        )
    return _exported(settings.head(), notes, chosen)


def export_mesh(settings: MeshSettings) -> Exported:
    """Return the variables that JAX reads before it starts; on a CPU as many virtual devices as the mesh has."""
    carried = {
        k: v
        for k, v in settings.tuned.environment.items()
        if not k.startswith((*NOT_CARRIED, "XLA_FLAGS"))
    }
    flags = list(xla_flags.combining(settings.combine_bytes)) if settings.combine_bytes else []
    if settings.tuned.device_kind == "cpu" and settings.devices > 1:
        flags.append(f"--xla_force_host_platform_device_count={settings.devices}")
    chosen = carried | ({"XLA_FLAGS": " ".join(flags)} if flags else {})
    if settings.memory_fraction:
        chosen["XLA_CLIENT_MEM_FRACTION"] = f"{settings.memory_fraction:g}"
    notes = [
        "environment variables express neither mesh nor batch nor what is kept for the backward pass: --to maxtext does"
    ]
    if not settings.memory_fraction:
        notes.append("the memory fraction stays JAX's own 0.75 (XLA_CLIENT_MEM_FRACTION)")
    return _exported(settings.head(), notes, chosen)


def _exported(head: Sequence[str], notes: Sequence[str], chosen: Mapping[str, str]) -> Exported:
    text = comments([*head, *notes]) + "".join(
        f"export {k}={shlex.quote(v)}\n" for k, v in chosen.items()
    )
    return Exported(text=text, notes=tuple(notes))
