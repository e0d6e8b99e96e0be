"""Maps: products over K and the size of the result with a model's own shapes on it, the roofline, ranks and pairs."""

import math
from collections.abc import Sequence

from mi300bench import stats
from mi300bench.hw.facts import find_device
from mi300bench.schema.model import Gemm
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.units import ELEMENT_BYTES, Unit, format_bytes, format_quantity

from mi300bench_reports import figure
from mi300bench_reports.page import Section, passes_of

FEWEST_SHAPES, MOST_ROWS, MOST_POINTS = 12, 24, 400


def _place(value: float) -> int:
    """Return the cell of a size: two for each doubling."""
    return round(2 * math.log2(value))


def _size(cell: int) -> str:
    return f"{2 ** (cell / 2):.0f}"


def products(records: Sequence[Measurement], gemms: Sequence[Gemm]) -> Section | None:
    """Return the median rate of products by K and by the square root of M x N, of the type and ranks with the most shapes."""
    groups: dict[tuple[str, int], list[tuple[Measurement, ...]]] = {}
    for found in passes_of(r for r in records if r.probe in ("gemm", "jax.gemm")):
        groups.setdefault((str(found[0].params.get("dtype")), found[0].world.ranks), []).append(
            found
        )
    if not groups:
        return None
    (dtype, ranks), points = max(groups.items(), key=lambda row: len(row[1]))
    if len(points) < FEWEST_SHAPES:
        return None
    cells: dict[tuple[int, int], list[float]] = {}
    for passes in points:
        m, n, k = (float(str(passes[0].params[name])) for name in ("m", "n", "k"))
        rate = stats.flop_rate(passes[0].work, stats.interval_of(passes).mid)
        cells.setdefault((_place(math.sqrt(m * n)), _place(k)), []).append(rate / 1e12)
    ys, xs = sorted({y for y, _ in cells}), sorted({x for _, x in cells})
    rows, columns = range(ys[0], ys[-1] + 1), range(xs[0], xs[-1] + 1)
    table = [
        [stats.typical(cells[y, x]) if (y, x) in cells else None for x in columns] for y in rows
    ]
    marks = []
    for gemm in gemms:
        x, y = (
            2 * math.log2(gemm.k) - columns[0] + 0.5,
            2 * math.log2(math.sqrt(gemm.m * gemm.n)) - rows[0] + 0.5,
        )
        if 0 <= x <= len(columns) and 0 <= y <= len(rows):
            marks.append((x, y, gemm.name))
    said = f"{dtype}" + (f", {ranks} ranks busy at once" if ranks > 1 else "")
    return Section(
        anchor="products-map",
        title="Map of products",
        sentences=(
            f"{said}: median TFLOPS of {len(points)} shapes by the reduction K and by how large the result is."
            + (" Circles are the tuned model's own products." if marks else ""),
        ),
        chart=figure.heat(
            table, rows=[_size(y) for y in rows], columns=[_size(x) for x in columns], label="TFLOPS", x_label="K",
            y_label="square root of M x N", marks=marks, alt="Rates of products by K and size of the result",
        ),
    )  # fmt: skip


def roofline(records: Sequence[Measurement]) -> Section | None:
    """Return products under the roofs of memory and of each type's products, published or the fastest measured."""
    moved = [
        stats.bandwidth(passes[0].work, stats.interval_of(passes).mid)
        for passes in passes_of(
            r for r in records if r.probe.startswith(("memory.", "jax.memory."))
        )
        if not any(doubt.kind == "footprint-in-cache" for doubt in passes[0].doubts)
    ]
    points = passes_of(r for r in records if r.probe in ("gemm", "jax.gemm"))
    if not moved or len(points) < 2:
        return None
    placed, best = [], dict[str, float]()
    for passes in points[-MOST_POINTS:]:
        work = passes[0].work
        rate = stats.flop_rate(work, stats.interval_of(passes).mid)
        dtype = str(passes[0].params.get("dtype"))
        best[dtype] = max(best.get(dtype, 0.0), rate)
        if (moved_bytes := _operand_bytes(passes[0])) > 0:
            placed.append((dtype, work.flop / moved_bytes, rate))
    if not placed:
        return None
    facts = find_device(records[0].device, arch=str(records[0].conditions.get("device_arch", "")))
    peaks = []
    for dtype, rate in best.items():
        fact = facts.facts.get(dtype) if facts else None
        peaks.append(
            (f"{dtype}, published peak", fact.value)
            if fact
            else (f"{dtype}, fastest measured", rate)
        )
    fact = facts.facts.get("memory_bandwidth") if facts else None
    roof = fact.value if fact else max(moved)
    whose = "published" if fact else "fastest measured"
    return Section(
        anchor="roofline",
        title="Roofline",
        sentences=(
            f"Products under the {whose} bandwidth of {format_quantity(roof, Unit.BYTE_PER_SECOND)}: left of the ridge memory is "
            "the bound, right of it computation. Intensity counts every operand once, so caches may lift a point over the slope.",
        ),
        chart=figure.roofline(
            placed, peaks=peaks, bandwidth=roof, alt="Products by intensity under the roofs"
        ),
    )


def _operand_bytes(record: Measurement) -> float:
    """Return the bytes of a product's operands, each once; 0 where neither the record nor its type tells."""
    told = record.work.bytes_read + record.work.bytes_written
    element = ELEMENT_BYTES.get(str(record.params.get("dtype")), 0)
    m, n, k = (float(str(record.params[name])) for name in ("m", "n", "k"))
    return told or element * (m * k + k * n + m * n) * float(str(record.params.get("batch", 1)))


def ranks(records: Sequence[Measurement]) -> Section | None:
    """Return each rank's median over the ranks' median, of the points with the largest messages."""
    points = [r for r in records if r.outcome is Outcome.OK and len(r.rank_samples) > 2]
    if not points:
        return None
    most = max(len(r.rank_samples) for r in points)
    newest: dict[str, Measurement] = {r.point: r for r in points if len(r.rank_samples) == most}
    chosen = sorted(newest.values(), key=lambda r: -(r.work.message_bytes or r.work.flop))[
        :MOST_ROWS
    ]
    table, names = [], []
    for record in chosen:
        middles = [stats.typical(samples) for samples in record.rank_samples]
        table.append([value / stats.typical(middles) for value in middles])
        size = f" {format_bytes(record.work.message_bytes)}" if record.work.message_bytes else ""
        names.append(f"{record.probe}{size}")
    return Section(
        anchor="ranks",
        title="Ranks",
        sentences=(f"Seconds of each of {most} ranks over the median of all, by point: a column that stands out is a slow rank.",),
        chart=figure.heat(
            table, rows=names, columns=[str(i) for i in range(most)], label="seconds over the median", x_label="rank", middle=1.0,
            alt="Seconds of each rank over the median of all",
        ),
        evidence=tuple(record.id for record in chosen),
    )  # fmt: skip


def pairs(records: Sequence[Measurement]) -> Section | None:
    """Return bandwidth from each device to each, of the largest transfers between them."""
    found: dict[tuple[str, str], tuple[float, float, str]] = {}
    for record in records:
        if (
            record.probe == "transfer"
            and record.outcome is Outcome.OK
            and record.params.get("src") != record.params.get("dst")
        ):
            key = str(record.params.get("src")), str(record.params.get("dst"))
            size, rate = (
                record.work.message_bytes,
                record.work.message_bytes / stats.seconds_per_call(record),
            )
            if key not in found or size >= found[key][0]:
                found[key] = size, rate, record.id
    names = sorted({name for pair in found for name in pair})
    if len(names) < 2:
        return None
    table = [[found[a, b][1] / 1e9 if (a, b) in found else None for b in names] for a in names]
    return Section(
        anchor="pairs",
        title="Pairs of devices",
        sentences=("GB/s of the largest transfer from each device (row) to each (column).",),
        chart=figure.heat(
            table,
            rows=names,
            columns=names,
            label="GB/s",
            x_label="to",
            y_label="from",
            alt="Bandwidth of each pair",
            is_written=True,
        ),
        evidence=tuple(identity for _, _, identity in found.values()),
    )
