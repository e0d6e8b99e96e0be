"""The bucket caps to weigh. Caps that pack the gradients in the same way are one option."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from mi300bench.fit.packing import Caps, pack
from mi300bench.fit.step import StepModel
from mi300bench.schema.candidate import Knob, Option
from mi300bench.units import MIB, format_bytes

# The key that the config of every trainer of this strategy has, and its value for torch's default.
BUCKETS = "ddp.bucket_cap_mb"
DEFAULT: Caps = "default"
BUCKET_KNOB = "buckets"

# Single caps to weigh in MiB, in addition to the default and to one bucket for all gradients.
CAPS_MIB: tuple[float, ...] = (0.5, 1, 2, 5, 10, 25, 50, 100, 200)
# Lists of caps in MiB: the first bucket, then the others. torch accepts lists since 2.13.
FIRST_CAPS_MIB: tuple[float, ...] = (1, 5, 25)
REST_CAPS_MIB: tuple[float, ...] = (2, 10, 50, 100)
LISTS_SINCE_TORCH = (2, 13)
LARGEST_DEFAULT_BUCKET = 25 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Caps, and the other caps that give the same packing."""

    value: Caps
    same_as: tuple[Caps, ...] = ()


def one_bucket_mib(gradient_bytes: Sequence[int]) -> float:
    """Return a cap in whole MiB that puts all gradients into one bucket."""
    return float(sum(gradient_bytes) // MIB + 1)


def bucket_caps(gradient_bytes: Sequence[int], *, torch_version: str) -> list[Caps]:
    """Return the bucket caps to weigh: the default, then single caps, then lists of caps.

    Lists are left out for versions of torch that do not accept them.
    """
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
    """Return one packing for each `key`: the first value, with the others that share the key."""
    groups: dict[Hashable, list[Caps]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return [Packing(value=group[0], same_as=tuple(group[1:])) for group in groups.values()]


def distinct_packings(gradient_bytes: Sequence[int], values: Iterable[Caps]) -> list[Packing]:
    """Return the caps, without those that pack these gradients in the same way as another one."""
    return distinct(values, lambda caps: pack(gradient_bytes, caps))


def bucket_knob(model: StepModel, *, torch_version: str) -> Knob:
    """Return the knob with one option for each different packing of this model's gradients."""
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
    """Return a doubt if one gradient is larger than DDP's default bucket, else an empty text.

    DDP never splits a gradient, so no cap changes when such a bucket is reduced.
    """
    timeline = model.timeline
    size, name = max(zip(timeline.gradient_bytes, timeline.names, strict=True))
    if size <= LARGEST_DEFAULT_BUCKET:
        return ""
    over = sum(s for s in timeline.gradient_bytes if s > LARGEST_DEFAULT_BUCKET)
    share = over / sum(timeline.gradient_bytes)
    moment = "last" if timeline.names[-1] == name else "before the last one"
    return (
        f"DDP never splits a parameter: the gradient of {name} has {format_bytes(size)} and is "
        f"ready {moment}, whatever the cap. Gradients larger than the default bucket have "
        f"{share:.0%} of all bytes, so the cap has little effect."
    )
