"""The roofline: matrix products under the roofs of memory and of each element type."""

from collections.abc import Sequence

from mi300bench import stats
from mi300bench.schema.record import Measurement
from mi300bench.store.newest import newest_passes
from mi300bench.units import ELEMENT_BYTES

from mi300bench_reports import as_text
from mi300bench_reports.charts import lines
from mi300bench_reports.elements import Section
from mi300bench_reports.peaks import device_facts

MOST_POINTS = 400
FEWEST_POINTS = 2


def roofline(records: Sequence[Measurement]) -> Section | None:
    """Return products by intensity under published roofs, or under the fastest measured rates."""
    bandwidths = _memory_bandwidths(records)
    products = newest_passes(r for r in records if r.probe in ("gemm", "jax.gemm"))
    if not bandwidths or len(products) < FEWEST_POINTS:
        return None
    points, fastest = [], dict[str, float]()
    for passes in products[-MOST_POINTS:]:
        work, dtype = passes[0].work, str(passes[0].params.get("dtype"))
        rate = stats.flop_rate(work, stats.interval_of(passes).mid)
        fastest[dtype] = max(fastest.get(dtype, 0.0), rate)
        operand_bytes = _operand_bytes(passes[0])
        if operand_bytes > 0:
            points.append((dtype, work.flop / operand_bytes, rate))
    if not points:
        return None
    device = device_facts(records[0])
    published = device.facts if device else {}
    peaks = [
        (f"{dtype}, published peak", published[dtype].value)
        if dtype in published
        else (f"{dtype}, fastest measured", rate)
        for dtype, rate in fastest.items()
    ]
    if "memory_bandwidth" in published:
        bandwidth, basis = published["memory_bandwidth"].value, "published"
    else:
        bandwidth, basis = max(bandwidths), "fastest measured"
    return Section(
        anchor="roofline",
        title="Roofline",
        sentences=(
            f"Matrix products under the {basis} bandwidth of {as_text.byte_rate(bandwidth)}. Left "
            "of the ridge memory limits the rate, right of it computation does. Intensity counts "
            "every operand once, so caches may lift a point above the slope.",
        ),
        chart=lines.roofline(
            points,
            peaks=peaks,
            bandwidth=bandwidth,
            alt="Matrix products by intensity under the roofs",
        ),
    )


def _memory_bandwidths(records: Sequence[Measurement]) -> list[float]:
    """Return the bandwidth of each memory point that did not stay in a cache."""
    return [
        stats.bandwidth(passes[0].work, stats.interval_of(passes).mid)
        for passes in newest_passes(
            r for r in records if r.probe.startswith(("memory.", "jax.memory."))
        )
        if not any(doubt.kind == "footprint-in-cache" for doubt in passes[0].doubts)
    ]


def _operand_bytes(record: Measurement) -> float:
    """Return the bytes of a product's operands, each once; 0 where they are not known."""
    recorded = record.work.bytes_read + record.work.bytes_written
    if recorded:
        return recorded
    element = ELEMENT_BYTES.get(str(record.params.get("dtype")), 0)
    m, n, k = (float(str(record.params[name])) for name in ("m", "n", "k"))
    return element * (m * k + k * n + m * n) * float(str(record.params.get("batch", 1)))
