"""The bucket caps to weigh. Those that pack the gradients alike are one packing."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from mi300bench.fit.packing import Caps, pack
from mi300bench.units import MIB

# The caps that are tried, in MiB, beside the default and a single bucket.
CAPS_MIB: tuple[float, ...] = (0.5, 1, 2, 5, 10, 25, 50, 100, 200)
# First bucket and the others, in MiB; torch takes a list of caps since this version.
FIRST_CAPS_MIB: tuple[float, ...] = (1, 5, 25)
REST_CAPS_MIB: tuple[float, ...] = (2, 10, 50, 100)
LISTS_SINCE_TORCH = (2, 13)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Caps, and the caps that come to the same thing."""

    value: Caps
    same_as: tuple[Caps, ...] = ()


def one_bucket_mib(gradient_bytes: Sequence[int]) -> float:
    """Return a cap in whole MiB that no bucket reaches before the last gradient."""
    return float(sum(gradient_bytes) // MIB + 1)


def bucket_caps(gradient_bytes: Sequence[int], *, torch_version: str) -> list[Caps]:
    """Return the bucket caps to weigh: the default first, then single caps, then lists where torch takes them."""
    whole = one_bucket_mib(gradient_bytes)
    singles: list[Caps] = ["default", *(cap for cap in CAPS_MIB if cap < whole), whole]
    version = tuple(
        int(part) for part in torch_version.split("+")[0].split(".")[:2] if part.isdigit()
    )
    if version < LISTS_SINCE_TORCH:
        return singles
    lists: list[Caps] = [[f, r] for f in FIRST_CAPS_MIB for r in (*REST_CAPS_MIB, whole) if f < r]
    return singles + lists


def distinct(values: Iterable[Caps], key: Callable[[Caps], Hashable]) -> list[Packing]:
    """Return one packing for each `key`, the first value standing for all that share it."""
    groups: dict[Hashable, list[Caps]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return [Packing(value=group[0], same_as=tuple(group[1:])) for group in groups.values()]


def distinct_packings(gradient_bytes: Sequence[int], values: Iterable[Caps]) -> list[Packing]:
    """Return the caps that pack these gradients differently."""
    return distinct(values, lambda caps: pack(gradient_bytes, caps))
