"""Several processes of one run: joining them, and what all of them must agree on.

They join through `jax.distributed`. Their number and rank come from Slurm, from Open MPI, from
torchrun (RANK, WORLD_SIZE, MASTER_ADDR), or from the variables JAX_COORDINATOR_ADDRESS,
JAX_NUM_PROCESSES and JAX_PROCESS_ID. Each of the other functions waits for all processes; a single
process never waits.
"""

import os
from typing import Any

import jax
import numpy as np
from mi300bench.errors import NodeError


def join() -> None:
    """Join the processes of an external launcher, if there is one."""
    variables = os.environ
    count = variables.get("JAX_NUM_PROCESSES", variables.get("WORLD_SIZE", ""))
    number = variables.get("JAX_PROCESS_ID", variables.get("RANK", ""))
    if count and number:
        # torchrun's store listens on MASTER_PORT, so the coordinator uses the next port.
        host = variables.get("MASTER_ADDR", "127.0.0.1")
        port = int(variables.get("MASTER_PORT", "29500")) + 1
        address = variables.get("JAX_COORDINATOR_ADDRESS", f"{host}:{port}")
        jax.distributed.initialize(address, int(count), int(number))
    elif int(variables.get("SLURM_NTASKS", variables.get("OMPI_COMM_WORLD_SIZE", "1"))) > 1:
        jax.distributed.initialize()


def gathered(tree: Any) -> Any:
    """Return a tree of arrays on the host, unsharded, in every process."""
    if jax.process_count() == 1:
        return jax.device_get(tree)
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(tree, tiled=True)


def any_of(is_true: bool) -> bool:
    """Return whether `is_true` holds in any process.

    A signal can reach some processes one step before others.
    """
    if jax.process_count() == 1:
        return is_true
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.array(is_true))))


def require_all(failure: Exception | None, action: str) -> None:
    """Raise this process's failure, or `NodeError` if another process failed."""
    is_failed = any_of(failure is not None)
    if failure is not None:
        raise failure
    if is_failed:
        raise NodeError(
            f"{action} failed in another process",
            hint="fix the cause in its message, then continue from the last checkpoint: --resume",
        )
