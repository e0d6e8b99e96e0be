"""Operands of products that take turns, so that each call finds its own outside the cache.

Between two turns of an operand, the other ones move more than twice the last-level cache. So no
flush is needed before a sample, and a sample can be a batch of calls. On a CPU this is much faster:
overwriting a shared cache of 500 MiB takes 90 ms. A GPU flushes in less than a millisecond, and the
flush hides the launch of the call, so there the operands do not take turns.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from mi300bench.device.base import AbstractDevice

# Each turn has its views of the memory, which take some time to make.
MOST_TURNS = 16_384
# Every operand starts at a multiple of this many bytes, as torch's allocations do.
ALIGNED_BYTES = 64
# Elements that are drawn; the memory repeats them. A prime, so that no two rows are alike.
DRAWN = 1_048_583
# Memory that is made larger than the point needs is large enough for most points after it.
SPARE = 1.25


@dataclass(frozen=True, slots=True)
class _Memory:
    """Memory for operands, and what it is filled with. Points in one process share it."""

    key: tuple[object, ...]
    elements: torch.Tensor


_shared: dict[str, _Memory] = {}


def turns_of(device: AbstractDevice, set_bytes: int) -> int:
    """Return how many sets of operands take turns; 1 if the cache is to be flushed instead."""
    if device.is_asynchronous:
        return 1
    turns = 1 + math.ceil(device.flush_bytes / max(set_bytes, 1))
    return turns if turns <= MOST_TURNS else 1


def aligned(elements: int, dtype: torch.dtype) -> int:
    """Return the elements from the start of one operand to that of the next."""
    step: int = ALIGNED_BYTES // dtype.itemsize
    return math.ceil(elements / step) * step


def memory(
    name: str,
    elements: int,
    dtype: torch.dtype,
    *,
    filled: str,
    draw: Callable[[int], torch.Tensor],
) -> torch.Tensor:
    """Return at least `elements` elements, filled with repetitions of what `draw` returns.

    The memory is kept under its `name` for the next point. It is filled again only if it is too
    small, or if `dtype` or `filled` differ.
    """
    key = (dtype, filled)
    kept = _shared.get(name)
    if kept is None or kept.key != key or kept.elements.numel() < elements:
        _shared.pop(name, None)
        made = torch.empty(math.ceil(SPARE * elements), dtype=dtype)
        block = draw(DRAWN)
        for part in made.split(block.numel()):
            part.copy_(block[: part.numel()])
        _shared[name] = kept = _Memory(key, made)
    return kept.elements
