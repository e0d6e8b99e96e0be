"""Environment variables, as a shell reads them: what held while the curves and the fresh runs were measured, and what was tuned."""

import shlex

from mi300bench.export.source import Exported, ExportSource, comments
from mi300bench.hw import xla_flags

# Set by the launcher for its own process, or true only on the machine that measured.
NOT_CARRIED = ("TORCHELASTIC_", "TORCH_NCCL_ASYNC", "OMP_NUM_THREADS")
JAX_DEFAULT_FRACTION = 0.75


def variables(source: ExportSource) -> dict[str, str]:
    """Return the variables by name."""
    run, tuned = source.run, source.tuned
    left_out = NOT_CARRIED if run.jax_client is None else (*NOT_CARRIED, "XLA_FLAGS")
    chosen = {name: v for name, v in tuned.environment.items() if not name.startswith(left_out)}
    if run.ranks is not None and run.ranks.threads:
        chosen["OMP_NUM_THREADS"] = str(run.ranks.threads)
    return chosen | _jax_variables(source)


def _jax_variables(source: ExportSource) -> dict[str, str]:
    """Return what JAX reads before it starts; on a CPU as many virtual devices as the mesh has."""
    client, mesh = source.run.jax_client, source.run.mesh
    if client is None:
        return {}
    flags = list(xla_flags.combining(client.combine_bytes)) if client.combine_bytes else []
    if source.tuned.device_kind == "cpu" and mesh is not None and mesh.devices > 1:
        flags.append(f"--xla_force_host_platform_device_count={mesh.devices}")
    chosen = {"XLA_FLAGS": " ".join(flags)} if flags else {}
    if client.memory_fraction:
        chosen["XLA_CLIENT_MEM_FRACTION"] = f"{client.memory_fraction:g}"
    return chosen


def export(source: ExportSource) -> Exported:
    """Return ``export NAME=value`` lines."""
    chosen, client = variables(source), source.run.jax_client
    notes = [
        "environment variables do not express batch, buckets, mesh or how a step is computed: "
        "export to a framework for those"
    ]
    if client is not None and not client.memory_fraction:
        notes.append(
            f"the memory fraction stays JAX's own {JAX_DEFAULT_FRACTION} (XLA_CLIENT_MEM_FRACTION)"
        )
    if not chosen:
        notes.append(
            "nothing was set beyond the defaults while this was measured, so nothing needs to be"
        )
    lines = "".join(f"export {name}={shlex.quote(v)}\n" for name, v in chosen.items())
    return Exported(text=comments([*source.head(), *notes]) + lines, notes=tuple(notes))
