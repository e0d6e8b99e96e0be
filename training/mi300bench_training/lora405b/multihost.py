"""What several processes must agree on: to stop, to give up. Each of these waits for all of them; one process alone never waits."""

import jax
import numpy as np
from mi300bench.errors import NodeError


def any_of(is_so: bool) -> bool:
    """Return whether it is so in any process. A signal reaches some of them a step earlier than the others."""
    if jax.process_count() == 1:
        return is_so
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.array(is_so))))


def require_all(failure: Exception | None, what: str) -> None:
    """Raise this process's failure; where another one failed, raise `NodeError`, instead of waiting for it for ever."""
    others = any_of(failure is not None)
    if failure is not None:
        raise failure
    if others:
        raise NodeError(
            f"{what} failed in another process",
            hint="its message says why; --resume continues from what was saved",
        )
