"""Ways to split a global batch: micro-batch, accumulation, ranks and threads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench.measurement.local_topology import cores
from mi300bench.schema.candidate import Knob, Option
from mi300bench.schema.record import Scalar, World
from mi300bench.strategies.job import Job

# Keys that the config of every trainer of this strategy has.
MICRO_BATCH, ACCUMULATE = "data.micro_batch", "data.accumulate"
RANKS, THREADS = "launch.ranks", "launch.threads"
BATCH_KNOB = "batch"
# The number of micro-batches to weigh in each world: the largest, its half, and so on.
MOST_BATCHES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One way to split a global batch."""

    world: World
    micro_batch: int
    accumulate: int

    @property
    def keys(self) -> dict[str, int]:
        """Return the micro-batch and the accumulation as keys of a config."""
        return {MICRO_BATCH: self.micro_batch, ACCUMULATE: self.accumulate}


def default_layout(job: Job) -> Layout:
    """Return the layout of the default config."""
    batch = job.settings.batch
    return Layout(world=job.world, micro_batch=batch.micro_batch, accumulate=batch.accumulate)


def layouts_of(job: Job) -> list[Layout]:
    """Return the layouts to weigh, the default first."""
    default = default_layout(job)
    if not job.weighs(BATCH_KNOB):
        return [default]
    worlds = [job.world]
    if job.may_regroup and job.world.device == "cpu" and job.world.ranks > 1:
        worlds.append(World(device="cpu", ranks=1, threads=cores()))
    whole = default.micro_batch * default.accumulate * job.world.ranks
    return layouts(global_batch=whole, default=default, worlds=worlds)


def layouts(*, global_batch: int, default: Layout, worlds: Sequence[World]) -> list[Layout]:
    """Return the default, then the other ways to split `global_batch` over `worlds`.

    Large micro-batches come first. A world whose ranks do not divide the batch is left out.
    """
    rows = [default]
    for world in worlds:
        if global_batch % world.ranks:
            continue
        each = global_batch // world.ranks
        sizes = [each >> shift for shift in range(MOST_BATCHES) if each % (1 << shift) == 0]
        rows += [
            Layout(world=world, micro_batch=size, accumulate=each // size) for size in sizes if size
        ]
    return list(dict.fromkeys(rows))


def batch_knob(rows: Sequence[Layout]) -> Knob:
    """Return the knob of the layouts in `rows`; the first one is the default."""
    default, options = rows[0], [Option()]
    for layout in rows[1:]:
        keys: dict[str, Any] = dict(layout.keys)
        is_elsewhere = layout.world != default.world
        if is_elsewhere:
            keys |= {RANKS: layout.world.ranks, THREADS: layout.world.threads}
        options.append(Option(keys=keys, world=layout.world if is_elsewhere else None))
    return Knob(name=BATCH_KNOB, options=tuple(options))


def timeline_params(job: Job, layout: Layout, keys: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return the parameters of the point that trains one micro-batch with `keys` set."""
    return job.point_params(job.config, {MICRO_BATCH: layout.micro_batch, **keys})


def step_params(job: Job, keys: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return the parameters of the point that trains whole steps with `keys` set.

    A whole step includes the accumulation. Ranks and threads belong to the world, not to the point.
    """
    inside = {name: value for name, value in keys.items() if name not in (RANKS, THREADS)}
    return job.point_params(job.config, {ACCUMULATE: default_layout(job).accumulate} | inside)
