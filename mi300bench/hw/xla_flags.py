"""XLA's flags for a GPU, and which of them the installed jaxlib knows: it ends a process that names an unknown one."""

import os
import subprocess
import sys
from collections.abc import Sequence

COMBINERS = ("all_gather", "all_reduce", "reduce_scatter")
LONGEST_S = 120
PROBE = "import jax; jax.devices()"


def combining(size: int) -> tuple[str, ...]:
    """Return the flags that join collectives up to `size` bytes."""
    return tuple(f"--xla_gpu_{op}_combine_threshold_bytes={size}" for op in COMBINERS)


def unknown(flags: Sequence[str]) -> tuple[str, ...]:
    """Return those of `flags` that the installed jaxlib does not know; all of them where there is none, or it does not answer."""
    told = {**os.environ, "XLA_FLAGS": " ".join(flags), "JAX_PLATFORMS": "cpu"}
    try:
        answer = subprocess.run(
            [sys.executable, "-c", PROBE],
            env=told,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        return tuple(flags)
    if answer.returncode == 0:
        return ()
    named = tuple(
        flag for flag in flags if flag in answer.stderr and "Unknown flag" in answer.stderr
    )
    return named or tuple(flags)
