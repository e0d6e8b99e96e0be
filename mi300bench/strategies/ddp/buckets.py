"""The bucket caps to weigh. Those that pack the gradients alike are one packing."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from mi300bench.fit.packing import Caps, pack
from mi300bench.fit.step import StepModel
from mi300bench.schema.candidate import Knob, Option
from mi300bench.units import MIB, format_bytes

# The key of the config that every trainer of this strategy has, and its value for torch's own buckets.
BUCKETS = "ddp.bucket_cap_mb"
DEFAULT: Caps = "default"
BUCKET_KNOB = "buckets"

# The caps that are tried, in MiB, beside the default and a single bucket.
CAPS_MIB: tuple[float, ...] = (0.5, 1, 2, 5, 10, 25, 50, 100, 200)
# First bucket and the others, in MiB; torch takes a list of caps since this version.
FIRST_CAPS_MIB: tuple[float, ...] = (1, 5, 25)
REST_CAPS_MIB: tuple[float, ...] = (2, 10, 50, 100)
LISTS_SINCE_TORCH = (2, 13)
LARGEST_DEFAULT_BUCKET = 25 * MIB


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


def bucket_knob(model: StepModel, *, torch_version: str) -> Knob:
    """Return the knob of packings that differ for the gradients of this model."""
    sizes = model.timeline.gradient_bytes
    packings = distinct_packings(sizes, bucket_caps(sizes, torch_version=torch_version))
    options = [
        Option(same_as=p.same_as)
        if p.value == DEFAULT
        else Option(keys={BUCKETS: p.value}, same_as=p.same_as)
        for p in packings
    ]
    return Knob(name=BUCKET_KNOB, options=tuple(options))


def indivisible(model: StepModel) -> str:
    """Return a sentence where one gradient alone exceeds DDP's default bucket, so that no cap splits it; else nothing."""
    timeline = model.timeline
    size, name = max(zip(timeline.gradient_bytes, timeline.names, strict=True))
    if size <= LARGEST_DEFAULT_BUCKET:
        return ""
    over = sum(s for s in timeline.gradient_bytes if s > LARGEST_DEFAULT_BUCKET)
    share = over / sum(timeline.gradient_bytes)
    place = "last of all" if timeline.names[-1] == name else "before the end"
    return (
        f"DDP never splits a parameter: the gradient of {name} has {format_bytes(size)} and is ready {place}, "
        f"whatever the cap; gradients over the default bucket make up {share:.0%} of all bytes, "
        "so the cap can change little."
    )
