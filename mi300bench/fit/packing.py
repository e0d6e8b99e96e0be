"""How DistributedDataParallel packs gradients into buckets, from the second step on.

Gradients are taken in the order in which they became ready. A bucket closes as soon as its bytes
reach its cap. In a list of caps each bucket has its own; the last cap serves all further buckets.
No parameter is split. Source: torch/csrc/distributed/c10d/reducer.cpp
(compute_bucket_assignment_by_size), torch/nn/parallel/distributed.py.
"""

from collections.abc import Sequence

from mi300bench.errors import PlanError
from mi300bench.units import MIB

# The first is torch's dist._DEFAULT_FIRST_BUCKET_BYTES, the second DDP's bucket_cap_mb=None.
DEFAULT_CAPS_BYTES = (MIB, 25 * MIB)

Caps = str | float | Sequence[float]


def caps_in_bytes(caps: Caps) -> tuple[int, ...]:
    """Return the caps in bytes, given ``default``, one cap in MiB or a list of caps in MiB."""
    if isinstance(caps, str):
        if caps != "default":
            raise PlanError(
                f"unknown bucket cap {caps!r}",
                hint='give "default", a number of MiB, or a list of them',
            )
        return DEFAULT_CAPS_BYTES
    listed = caps if isinstance(caps, Sequence) else [caps]
    return tuple(int(cap * MIB) for cap in listed)


def pack(gradient_bytes: Sequence[int], caps: Caps) -> tuple[tuple[int, ...], ...]:
    """Return the buckets as indices into `gradient_bytes`, which is in the order of readiness."""
    limits = caps_in_bytes(caps)
    buckets: list[tuple[int, ...]] = []
    open_bucket: list[int] = []
    held = 0
    for index, size in enumerate(gradient_bytes):
        open_bucket.append(index)
        held += size
        if held >= limits[min(len(buckets), len(limits) - 1)]:
            buckets.append(tuple(open_bucket))
            open_bucket, held = [], 0
    if open_bucket:
        buckets.append(tuple(open_bucket))
    return tuple(buckets)


def bucket_bytes(gradient_bytes: Sequence[int], caps: Caps) -> tuple[int, ...]:
    """Return the size of each bucket in bytes."""
    return tuple(
        sum(gradient_bytes[index] for index in bucket) for bucket in pack(gradient_bytes, caps)
    )
