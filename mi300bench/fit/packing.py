"""How DistributedDataParallel packs gradients into buckets, as its reducer does after the first step.

Gradients are taken in the order in which they became ready; a bucket closes as soon as its bytes reach its
cap; the caps of a list are used one a bucket, the last one for the rest. No parameter is split. Source:
torch/csrc/distributed/c10d/reducer.cpp (compute_bucket_assignment_by_size), torch/nn/parallel/distributed.py.
"""

from collections.abc import Sequence

from mi300bench.errors import PlanError
from mi300bench.units import MIB

# torch's defaults: DistributedDataParallel's bucket_cap_mb=None, dist._DEFAULT_FIRST_BUCKET_BYTES.
DEFAULT_CAPS_BYTES = (MIB, 25 * MIB)

Caps = str | float | Sequence[float]


def caps_in_bytes(caps: Caps) -> tuple[int, ...]:
    """Return the caps that DDP uses for ``default``, one cap in MiB, or a list of caps in MiB."""
    if isinstance(caps, str):
        if caps != "default":
            raise PlanError(
                f"bucket cap {caps!r} is not known", hint='"default", MiB, or a list of MiB'
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
