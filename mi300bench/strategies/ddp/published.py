"""Records from published figures of a device: timelines, the all_reduce curve, the overlap."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from mi300bench.physics import busbw_factor
from mi300bench.published.assumptions import LATENCY_S, OVERLAP, STAND_INS
from mi300bench.published.figures import PublishedDevice, shares_of_peak
from mi300bench.schema.record import Measurement, Series, Work
from mi300bench.strategies.ddp.layouts import Layout, default_layout, layouts_of, timeline_params
from mi300bench.strategies.ddp.stages import run_options
from mi300bench.strategies.job import Job
from mi300bench.units import GIB, MIB

# AdamW in float32 reads gradient, weight and two moments, and writes weight and moments.
UPDATE_BYTES_PER_PARAMETER = 28.0
SIZES = (8, 64 * 1024, MIB, 16 * MIB, 128 * MIB, GIB, 4 * GIB)
OVERLAP_ROWS = 4096


def records_of(job: Job, device: PublishedDevice) -> Iterator[Measurement]:
    """Yield the records; `PlanError` names a figure that is not published."""
    ranks, precision = job.world.ranks, job.settings.precision
    facts = {name: device.fact(name) for name in (precision, "memory_bandwidth")}
    sources = [f"{name}: {fact.source}" for name, fact in facts.items()]
    busbw = 0.0
    if ranks > 1:
        busbw, cause = device.all_reduce_busbw(ranks)
        sources.append(f"all_reduce: {cause}")
    source = "; ".join([*sources, STAND_INS])
    peak, bandwidth = facts[precision].value, facts["memory_bandwidth"].value

    def timeline(layout: Layout, keys: Mapping[str, Any], flop_factor: float) -> Measurement:
        return _timeline(job, device, layout, keys, flop_factor, peak, bandwidth, source)

    for layout in layouts_of(job):
        yield timeline(layout, {}, 1.0)
    for knob, options in run_options(job).items():
        if knob.flop_factor is not None:
            (key,) = knob.keys
            old = job.spec.value_of(job.config, key)
            for keys in options:
                yield timeline(default_layout(job), keys, knob.flop_factor(old, keys[key]))
    if ranks == 1:
        return
    for size in SIZES:
        seconds = LATENCY_S + size * busbw_factor("all_reduce", ranks) / busbw
        yield device.record(
            "collective.all_reduce",
            {"bytes": size, "dtype": "float32"},
            job.world,
            source=source,
            samples=(seconds / 1.5, seconds, seconds * 1.5),
            work=Work(message_bytes=size),
        )
    yield _overlap(job, device, source)


def _timeline(
    job: Job,
    device: PublishedDevice,
    layout: Layout,
    keys: Mapping[str, Any],
    flop_factor: float,
    peak: float,
    bandwidth: float,
    source: str,
) -> Measurement:
    """Return the phases of a step, from its FLOP and from the bytes of the update.

    Forward has a third of the FLOP, backward two thirds and all recomputation. Gradients are ready
    in the reverse order of the parameters, in proportion to their sizes.
    """
    described, batch = job.described, job.settings.batch
    flop = described.flop_per_token * layout.micro_batch * batch.seq_len
    update_s = described.total_elements * UPDATE_BYTES_PER_PARAMETER / bandwidth
    rows = []
    for share in shares_of_peak():
        third = flop / 3 / (share * peak)
        rows.append((third, 2 * third + 3 * (flop_factor - 1) * third))
    forward_s, backward_s = rows[1]
    tensors = list(reversed(described.parameters))
    total = sum(tensor.elements for tensor in tensors)
    done = itertools.accumulate(tensor.elements for tensor in tensors)
    # The embedding is also the head, so its gradient is complete only at the end.
    series: Series = {
        "forward_s": (forward_s,),
        "backward_s": (backward_s,),
        "update_s": (update_s,),
        "parameter": tuple(tensor.name for tensor in tensors),
        "parameter_bytes": tuple(4 * tensor.elements for tensor in tensors),
        "ready_s": tuple(backward_s * part / total for part in done),
    }
    return device.record(
        f"{job.trainer}.backward",
        timeline_params(job, layout, keys),
        layout.world,
        source=source,
        samples=tuple(forward + backward + update_s for forward, backward in rows),
        series=series,
        work=Work(flop=flop),
    )


def _overlap(job: Job, device: PublishedDevice, source: str) -> Measurement:
    """Return the record of an overlap in which both parts slow down by the assumed factor."""
    width = job.described.width
    shape = {"bytes": 16 * MIB, "m": OVERLAP_ROWS, "n": width, "k": width}
    return device.record(
        "overlap",
        shape | {"dtype": job.settings.precision},
        job.world,
        source=source,
        samples=(OVERLAP,),
        series={
            "compute_alone_s": (1.0,),
            "collective_alone_s": (1.0,),
            "compute_beside_s": (OVERLAP,),
            "both_s": (OVERLAP,),
        },
        work=Work(message_bytes=16 * MIB),
    )
