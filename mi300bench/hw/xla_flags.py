"""XLA's GPU flags. XLA aborts on a flag that the installed jaxlib does not know."""

import os
import subprocess
import sys
from collections.abc import Sequence

COMBINERS = ("all_gather", "all_reduce", "reduce_scatter")
LIMIT_S = 120
START_XLA = "import jax; jax.devices()"


def combining(size: int) -> tuple[str, ...]:
    """Return the flags that combine collectives up to `size` bytes."""
    return tuple(f"--xla_gpu_{op}_combine_threshold_bytes={size}" for op in COMBINERS)


def unknown(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the `flags` that the installed jaxlib does not know; all, if it does not start."""
    environment = {**os.environ, "XLA_FLAGS": " ".join(flags), "JAX_PLATFORMS": "cpu"}
    try:
        answer = subprocess.run(
            [sys.executable, "-c", START_XLA],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return tuple(flags)
    if answer.returncode == 0:
        return ()
    reported = tuple(
        flag for flag in flags if flag in answer.stderr and "Unknown flag" in answer.stderr
    )
    return reported or tuple(flags)
