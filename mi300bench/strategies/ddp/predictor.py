"""The knobs of the ZAYA1 trainer, what they are predicted to do to a step, and how a choice is worded.

batch     micro-batch and accumulation at a fixed global batch; on a CPU also ranks and threads that share the same cores
experts   one grouped product, padded batches, or a loop
loss_chunk tokens whose logits exist at once
recompute activations computed again in backward: it costs time, so it is weighed only where memory asks for it
buckets   DistributedDataParallel's caps
shapes    hidden, expert and head widths within the budget of active parameters, and padded vocabulary
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench.fit.packing import Caps
from mi300bench.fit.step import Factors, SimulatedStep, StepModel
from mi300bench.schema.candidate import Candidate, Knob, Option
from mi300bench.schema.model import Prediction
from mi300bench.schema.record import World
from mi300bench.strategies.ddp.buckets import bucket_caps, distinct_packings
from mi300bench.units import MIB, format_bytes

BUCKETS, MICRO_BATCH, ACCUMULATE = "ddp.bucket_cap_mb", "data.micro_batch", "data.accumulate"
RANKS, THREADS = "launch.ranks", "launch.threads"
EXPERTS, CHUNK, RECOMPUTE, PRECISION = (
    "compute.experts",
    "compute.loss_chunk",
    "compute.recompute",
    "precision",
)
KNOBS = ("batch", "experts", "loss_chunk", "recompute", "precision", "shapes", "buckets")
DEFAULT: Caps = "default"
EXPERT_WAYS = ("grouped", "padded", "loop")
# How many micro-batches, halved from the largest, are weighed in each world; shares of a micro-batch's tokens in a chunk.
MOST_BATCHES, CHUNK_SHARES = 3, (2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One way to share a global batch out: sequences at once, how often, in which world."""

    world: World
    micro_batch: int
    accumulate: int


def layouts(*, global_batch: int, default: Layout, worlds: Sequence[World]) -> list[Layout]:
    """Return the default and the other ways to share `global_batch` out over `worlds`, large micro-batches first."""
    found = [default]
    for world in worlds:
        if global_batch % world.ranks:
            continue
        each = global_batch // world.ranks
        halves = [
            each >> shift
            for shift in range(MOST_BATCHES)
            if each % (1 << shift) == 0 and each >> shift
        ]
        found += [Layout(world=world, micro_batch=size, accumulate=each // size) for size in halves]
    return list(dict.fromkeys(found))


def batch_knob(found: Sequence[Layout]) -> Knob:
    """Return the knob of layouts, the default (the first) changing nothing."""
    default, options = found[0], [Option()]
    for layout in found[1:]:
        keys: dict[str, Any] = {MICRO_BATCH: layout.micro_batch, ACCUMULATE: layout.accumulate}
        is_elsewhere = layout.world != default.world
        if is_elsewhere:
            keys |= {RANKS: layout.world.ranks, THREADS: layout.world.threads}
        options.append(Option(keys=keys, world=layout.world if is_elsewhere else None))
    return Knob(name="batch", options=tuple(options))


def compute_options(
    *, tokens: int, experts: str, is_short_of_memory: bool, precisions: Sequence[str]
) -> dict[str, list[Any]]:
    """Return the values to weigh for each key about how a step is computed, the default's left out."""
    values: dict[str, list[Any]] = {
        EXPERTS: [way for way in EXPERT_WAYS if way != experts],
        CHUNK: sorted({tokens // share for share in CHUNK_SHARES if tokens // share >= 32}),
    }
    if is_short_of_memory:
        values[RECOMPUTE] = ["block"]
    if precisions:
        values[PRECISION] = list(precisions)
    return values


def compute_knob(key: str, values: Iterable[Any]) -> Knob:
    """Return a knob of one key."""
    return Knob(
        name=key.rpartition(".")[2],
        options=(Option(), *(Option(keys={key: value}) for value in values)),
    )


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
    return Knob(name="buckets", options=tuple(options))


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """What was measured of the step: a model for each world and micro-batch, and what each single change does to it."""

    default: Layout
    models: Mapping[tuple[World, int], StepModel]
    effects: Mapping[tuple[str, Any], Factors]
    shapes: Callable[[Option], Factors]

    def model(self, candidate: Candidate) -> StepModel:
        """Return the candidate's step model: that of its layout, stretched by each of its other changes."""
        keys = candidate.keys
        world = candidate.world or self.default.world
        model = self.models[world, keys.get(MICRO_BATCH, self.default.micro_batch)]
        factors = Factors()
        for key in (EXPERTS, CHUNK, RECOMPUTE, PRECISION):
            if key in keys:
                factors = factors * self.effects[key, keys[key]]
        option = candidate.options.get("shapes")
        if option is not None and option.keys:
            factors = factors * self.shapes(option)
        return model.stretched(factors)

    def _settings(self, candidate: Candidate) -> tuple[Caps, int]:
        keys = candidate.keys
        return keys.get(BUCKETS, DEFAULT), keys.get(ACCUMULATE, self.default.accumulate)

    def simulate(self, candidate: Candidate) -> SimulatedStep:
        """Return the candidate's step."""
        caps, accumulate = self._settings(candidate)
        return self.model(candidate).simulate(caps, accumulate=accumulate)

    def predict(self, candidate: Candidate) -> Prediction:
        """Return the seconds of the candidate's step, with an interval."""
        caps, accumulate = self._settings(candidate)
        return self.model(candidate).predict(caps, accumulate=accumulate)


def indivisible(model: StepModel) -> str:
    """Return a sentence where one gradient alone exceeds DDP's default bucket: no cap can split it. Empty otherwise."""
    timeline = model.timeline
    size, name = max(zip(timeline.gradient_bytes, timeline.names, strict=True))
    if size <= 25 * MIB:
        return ""
    share = sum(s for s in timeline.gradient_bytes if s > 25 * MIB) / sum(timeline.gradient_bytes)
    place = "last of all" if timeline.names[-1] == name else "before the end"
    return (
        f"DDP never splits a parameter: {name} has a gradient of {format_bytes(size)} that is ready {place}, whatever the cap; "
        f"gradients over the default bucket make up {share:.0%} of all bytes, so the cap can change little."
    )
