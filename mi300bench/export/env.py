"""Environment variables, as a shell reads them: what held while the curves and the fresh runs were measured."""

import shlex

from mi300bench.export.exported import Exported, Settings, comments

# Set by the launcher for its own process, or true only on the machine that measured.
NOT_CARRIED = ("TORCHELASTIC_", "TORCH_NCCL_ASYNC", "OMP_NUM_THREADS")


def variables(settings: Settings) -> dict[str, str]:
    """Return the variables by name."""
    carried = {k: v for k, v in settings.tuned.environment.items() if not k.startswith(NOT_CARRIED)}
    return carried | ({"OMP_NUM_THREADS": str(settings.threads)} if settings.threads else {})


def export(settings: Settings) -> Exported:
    """Return ``export NAME=value`` lines."""
    chosen = variables(settings)
    notes = ["environment variables express neither batch nor buckets nor how a step is computed: --to ddp, torchtitan, ... do"]
    if not chosen:
        notes.append("nothing was set beyond the defaults while this was measured, so nothing needs to be")
    text = comments([*settings.head(), *notes]) + "".join(f"export {k}={shlex.quote(v)}\n" for k, v in chosen.items())
    return Exported(text=text, notes=tuple(notes))
