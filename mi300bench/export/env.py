"""Environment variables for a shell: those that were set during measuring, and those tuned."""

import shlex

from mi300bench.export.source import Exported, ExportSource, comments
from mi300bench.hw import xla_flags

# Variables that a launcher sets for its processes, or that hold only on the measured machine.
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
    """Return the variables that JAX reads at its start. On a CPU they make the virtual devices."""
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
        "export those to a framework"
    ]
    if client is not None and not client.memory_fraction:
        notes.append(
            f"XLA_CLIENT_MEM_FRACTION is not set: JAX's default of {JAX_DEFAULT_FRACTION} was kept"
        )
    if not chosen:
        notes.append("no variable was set during measuring, so you need to set none")
    lines = "".join(f"export {name}={shlex.quote(v)}\n" for name, v in chosen.items())
    return Exported(text=comments([*source.head(), *notes]) + lines, notes=tuple(notes))
