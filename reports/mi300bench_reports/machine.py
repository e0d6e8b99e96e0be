"""What the machine does: memory through the caches, matrix products, collectives, overlap."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from mi300bench import physics, stats
from mi300bench.errors import RecordError
from mi300bench.fit.gemm import FEWEST_SHAPES, fit_gemm, workload_score
from mi300bench.fit.link import LinkModel, fit_link
from mi300bench.fit.overlap import fit_overlap
from mi300bench.fit.roofline import MemoryCurve, fit_memory
from mi300bench.hw.facts import Fact, find_device, peak_fraction
from mi300bench.hw.reference import normal
from mi300bench.schema.doubt import VariantsDisagree
from mi300bench.schema.model import Gemm
from mi300bench.schema.record import Measurement, Origin, Outcome
from mi300bench.units import Unit, format_bytes, format_quantity

from mi300bench_reports import figure, maps
from mi300bench_reports.page import Section, Table, by_machine, passes_of

# Two kernels of one pattern that differ by more than this measure a kernel, not the memory.
VARIANTS_MAY_DIFFER = 0.10


def sections(records: Sequence[Measurement], gemms: Sequence[Gemm] = ()) -> list[Section]:
    """Return the sections for which there are records; `gemms` are the products of the tuned model."""
    found: list[Section] = []
    for number, (name, own) in enumerate(by_machine(records).items()):
        found_here = (
            memory(own), maps.roofline(own), products(own, gemms, is_alone=not name), maps.products(own, gemms), *collectives(own),
            maps.ranks(own), maps.pairs(own), overlap(own),
        )  # fmt: skip
        for section in found_here:
            if section is not None:
                suffix = f"-{number}" if number else ""
                title = f"{section.title}: {name}" if name else section.title
                found.append(replace(section, anchor=section.anchor + suffix, title=title))
    return found


MOST_FITTED, MOST_ROWS = 100, 600
# A fit that is off by more than this predicts nothing that anybody would act on.
USEFUL_ERROR = 0.3


def _published(record: Measurement, name: str) -> Fact | None:
    device = find_device(
        record.device,
        arch=str(record.conditions.get("device_arch", "")),
        compute_units=int(str(record.conditions.get("compute_units") or 0)),
    )
    return device.facts.get(name) if device else None


def _of_peak(rate: float, peak: Fact | None) -> str:
    fraction = peak_fraction(rate, peak)
    return "no published peak" if fraction is None else f"{fraction:.0%} of the published peak"


def _curves(records: Sequence[Measurement]) -> list[MemoryCurve]:
    groups: dict[tuple[str, str, str], list[Sequence[Measurement]]] = {}
    for passes in passes_of(r for r in records if r.probe.startswith("memory.")):
        first = passes[0]
        key = (first.probe, str(first.params.get("variant", "op")), str(first.params.get("dtype")))
        if "row_bytes" not in first.params:
            groups.setdefault(key, []).append(passes)
    return [fit_memory(group) for group in groups.values()]


def _disagreements(curves: Sequence[MemoryCurve]) -> list[str]:
    """Return a sentence for each pattern whose two variants differ at the largest footprint that both have."""
    said = []
    for one, other in itertools.combinations(curves, 2):
        common = set(one.footprints) & set(other.footprints)
        if one.pattern != other.pattern or one.variant == other.variant or not common:
            continue
        at = max(common)
        rates = sorted(
            (curve.bandwidths[curve.footprints.index(at)], curve.variant) for curve in (one, other)
        )
        ratio = rates[1][0] / rates[0][0]
        if ratio > 1 + VARIANTS_MAY_DIFFER:
            doubt = VariantsDisagree(faster=rates[1][1], slower=rates[0][1], ratio=ratio)
            said.append(f"{one.pattern} at {format_bytes(at)}: {doubt}")
    return said


def memory(records: Sequence[Measurement]) -> Section | None:
    """Return bandwidth over footprint, with the knees that the data show."""
    curves = _curves(records)
    rows_table = _rows(records)
    if not curves and rows_table is None:
        return None
    lines: list[figure.Line] = []
    marks: list[tuple[float, str]] = []
    sentences: list[str] = []
    evidence: list[str] = []
    first = next(r for r in records if r.probe.startswith("memory.") and r.outcome is Outcome.OK)
    peak = _published(first, "memory_bandwidth")
    for curve in curves:
        if len(curve.footprints) > 1:
            lines.append(
                figure.Line(
                    label=f"{curve.pattern} ({curve.variant})",
                    x=curve.footprints,
                    y=tuple(b / 1e9 for b in curve.bandwidths),
                )
            )
        knees = ", ".join(format_bytes(knee) for knee in curve.knees)
        sustained = format_quantity(curve.sustained, Unit.BYTE_PER_SECOND)
        sentences.append(
            f"{curve.pattern} ({curve.variant}): {sustained} at the largest footprints, {_of_peak(curve.sustained, peak)}"
            + (f"; it falls at {knees}." if knees else ".")
        )
        evidence += curve.evidence
    longest = max(curves, key=lambda curve: len(curve.footprints), default=None)
    cache = first.conditions.get("cache_bytes")
    if cache:
        marks.append((float(str(cache)), "last-level cache"))
    sentences += _disagreements(curves)
    chart = ""
    if longest is not None and lines:
        chart = figure.curves(
            lines,
            x_label="bytes touched",
            y_label="GB/s (1e9 B/s)",
            alt="Memory bandwidth over footprint",
            marks=marks,
            log_y=False,
        )
    return Section(
        anchor="memory",
        title="Memory",
        sentences=tuple(sentences),
        chart=chart,
        table=rows_table,
        evidence=tuple(evidence),
    )


def _rows(records: Sequence[Measurement]) -> Table | None:
    rows = []
    for passes in passes_of(
        r for r in records if "row_bytes" in r.params and r.probe.startswith("memory.")
    ):
        first, seconds = passes[0], stats.interval_of(passes).mid
        rate = format_quantity(stats.bandwidth(first.work, seconds), Unit.BYTE_PER_SECOND)
        p = first.params
        rows.append(
            (
                first.probe.removeprefix("memory."),
                format_bytes(float(str(p["bytes"]))),
                f"{p['row_bytes']} B",
                str(p.get("variant", "op")),
                rate,
            )
        )
    return (
        Table(columns=("pattern", "array", "row", "variant", "bandwidth"), rows=tuple(rows))
        if rows
        else None
    )


def products(
    records: Sequence[Measurement], gemms: Sequence[Gemm] = (), *, is_alone: bool = True
) -> Section | None:
    """Return the rates of matrix products of a rank by shape, fastest first; what `gemms` reach together; the fit.

    The fit takes seconds, so it is of one machine's page alone.
    """
    points = passes_of(r for r in records if r.probe == "gemm")
    if not points:
        return None
    rated = []
    for passes in points:
        interval = stats.interval_of(passes)
        rated.append((stats.flop_rate(passes[0].work, interval.mid), interval, passes))
    rated.sort(key=lambda row: -row[0])
    best: dict[tuple[str, int], float] = {}
    for rate, _, passes in rated:
        best.setdefault(_kind(passes), rate)
    rows, keys = [], []
    for rate, interval, passes in rated:
        p = passes[0].params
        shape = f"{p['m']}x{p['n']}x{p['k']}"
        dtype, ranks = _kind(passes)
        cache = str(p.get("cache", "cold" if passes[0].origin is Origin.MEASURED else "not told"))
        share = rate / best[dtype, ranks]
        said = format_quantity(rate, Unit.FLOP_PER_SECOND)
        within = interval.as_spread
        rows.append(
            (
                shape,
                str(p["layout"]),
                dtype,
                str(ranks),
                cache,
                said,
                f"{share:.0%}",
                within,
                passes[0].id,
            )
        )
        keys.append(
            (passes[0].work.flop, str(p["layout"]), dtype, ranks, cache, rate, share, interval.high / interval.mid, passes[0].id)
        )  # fmt: skip
    shown = rated[:24]
    chart = figure.bars(
        [
            f"{q['m']}x{q['n']}x{q['k']} {q['layout']} {q['dtype']}"
            for q in (row[2][0].params for row in shown)
        ],
        [row[0] / 1e12 for row in shown],
        x_label="TFLOPS (1e12 FLOP/s)",
        alt="Matrix product rates by shape",
    )
    sentences = []
    for (dtype, ranks), rate in best.items():
        own = [passes for passes in points if _kind(passes) == (dtype, ranks)]
        busy = "" if ranks == 1 else f", {ranks} ranks busy at once, each"
        sentences.append(
            f"{dtype}{busy}: the best shape reaches {format_quantity(rate, Unit.FLOP_PER_SECOND)}, "
            f"{_of_peak(rate, _published(points[0][0], dtype))}."
            + _together(own, gemms, rate)
            + (_predictable(own) if is_alone else "")
        )
    sentences.append(
        "Shapes are MxNxK with K the reduction; share is of the best shape of the same type and ranks."
    )
    columns = ("shape", "layout", "type", "ranks", "cache", "rate", "share", "+-", "record")
    return Section(
        anchor="products",
        title="Matrix products",
        sentences=tuple(sentences),
        chart=chart,
        table=Table(columns=columns, rows=tuple(rows[:MOST_ROWS]), keys=tuple(keys[:MOST_ROWS])),
    )


def _kind(passes: Sequence[Measurement]) -> tuple[str, int]:
    return str(passes[0].params["dtype"]), passes[0].world.ranks


def _together(points: Sequence[Sequence[Measurement]], gemms: Sequence[Gemm], best: float) -> str:
    """Return what the tuned model's products reach together, where each was measured."""
    score = workload_score(points, gemms) if gemms else None
    if score is None:
        return ""
    rate = format_quantity(score.together, Unit.FLOP_PER_SECOND)
    return f" All products of the tuned model's default shape together reach {rate}, {score.together / best:.0%} of that."


def _predictable(points: Sequence[Sequence[Measurement]]) -> str:
    """Return how well a fit through these points predicts those left out, where there are enough."""
    if (
        len({(g[0].params["m"], g[0].params["n"], g[0].params["k"]) for g in points})
        < FEWEST_SHAPES
    ):
        return ""
    # Drawn evenly: the fit's time grows with the cube of the shapes.
    step = max(1, len(points) // MOST_FITTED)
    model = fit_gemm(list(points)[::step])
    error, nearest = stats.typical(model.errors), stats.typical(model.nearest_errors)
    if error > USEFUL_ERROR:
        return f" A fit is off by {error:.0%} (median) for shapes left out of it: these shapes are too few to predict others from."
    beside = f"the nearest measured shape's rate would be off by {nearest:.1%}"
    return f" A fit predicts shapes left out of it to {error:.1%} (median); {beside}."


def _fit_line(link: LinkModel) -> figure.Line:
    """Return latency + size / bandwidth as a bandwidth curve over the measured sizes."""
    rates = tuple(size / (link.latency_s + size / link.bandwidth) / 1e9 for size in link.sizes)
    latency, bandwidth = (
        format_quantity(link.latency_s, Unit.SECOND),
        format_quantity(link.bandwidth, Unit.BYTE_PER_SECOND),
    )
    return figure.Line(label=f"{latency} + S / {bandwidth}", x=link.sizes, y=rates, is_fit=True)


def collectives(records: Sequence[Measurement]) -> list[Section]:
    """Return one section for each number of ranks, torch's and JAX's apart: bandwidth over size with the fitted link."""
    ours = ("collective.", "jax.collective.")
    points = passes_of(
        r
        for r in records
        if r.probe.startswith(ours) and "inflight" not in r.params and not r.params.get("in_place")
    )
    found = []
    for prefix, ranks in sorted(
        {(p[0].probe.rpartition(".")[0], p[0].world.ranks) for p in points}
    ):
        lines: list[figure.Line] = []
        rows: list[tuple[str, ...]] = []
        evidence: list[str] = []
        doubts: list[str] = []
        ranges: list[tuple[float, float, float]] = []
        for op in physics.COLLECTIVES:
            group = [
                p for p in points if p[0].world.ranks == ranks and p[0].probe == f"{prefix}.{op}"
            ]
            try:
                link = fit_link(group) if group else None
            except (
                RecordError
            ):  # too few sizes for a curve: the points stand in the table of all points
                continue
            if link is None:
                continue
            algbw = tuple(
                size / seconds / 1e9 for size, seconds in zip(link.sizes, link.seconds, strict=True)
            )
            lines += [figure.Line(label=op, x=link.sizes, y=algbw), _fit_line(link)]
            factor = physics.busbw_factor(op, ranks)
            rows.append(
                (op, format_quantity(link.latency_s, Unit.SECOND), format_quantity(link.bandwidth, Unit.BYTE_PER_SECOND),
                 format_quantity(link.bandwidth * factor, Unit.BYTE_PER_SECOND), format_bytes(link.knee_bytes),
                 format_bytes(link.kink_bytes) if link.kink_bytes else "none", f"{link.typical_error:.1%}")
            )  # fmt: skip
            evidence += link.evidence
            if link.typical_error > USEFUL_ERROR:
                doubts.append(
                    f"Doubt: {op}'s line is off by {link.typical_error:.0%} for sizes left out of it: more sizes are needed."
                )
            ranges += _published_range(group, op, ranks, factor)
        if not lines:
            continue
        first = next(
            p[0] for p in points if p[0].world.ranks == ranks and p[0].probe.startswith(prefix)
        )
        is_jax = first.world.framework == "jax"
        place = f"{ranks} devices of a mesh, under JAX" if is_jax else f"{ranks} ranks"
        columns = (
            "operation",
            "latency",
            "algbw of large messages",
            "busbw",
            "knee",
            "kink",
            "held-out error (p90)",
        )
        found.append(
            Section(
                anchor=f"{'jax-' if is_jax else ''}collectives-{ranks}",
                title=f"Collectives among {place}",
                sentences=(
                    f"Backend {first.conditions.get('backend', 'not told')}, "
                    f"{'one process' if is_jax else 'started by ' + str(first.conditions.get('launcher', 'unknown'))}. "
                    "algbw = size / time; busbw = algbw x factor of the operation (all_reduce 2(n-1)/n, all_gather, "
                    "reduce_scatter and all_to_all (n-1)/n, others 1). At the knee latency and transfer take equally long.",
                    *doubts,
                ),
                chart=figure.curves(
                    lines,
                    x_label="message size S",
                    y_label="algbw, GB/s",
                    ranges=ranges,
                    alt=f"Bandwidth of collectives among {place}",
                ),
                table=Table(columns=columns, rows=tuple(rows)),
                evidence=tuple(evidence),
            )
        )
    return found


def _published_range(
    group: Sequence[Sequence[Measurement]], op: str, ranks: int, factor: float
) -> list[tuple[float, float, float]]:
    """Return (size, low, high) in GB/s algbw of what others published for the same operation, ranks and about the same size."""
    found = []
    for passes in group:
        device = find_device(
            passes[0].device, arch=str(passes[0].conditions.get("device_arch", ""))
        )
        size = passes[0].work.message_bytes
        value = size / stats.interval_of(passes).mid * factor
        known = (
            normal(device.key, f"collective.{op}", value, ranks=ranks, size=size)
            if device
            else None
        )
        if known is not None:
            found.append((size, known.low / factor / 1e9, known.high / factor / 1e9))
    return found


def overlap(records: Sequence[Measurement]) -> Section | None:
    """Return how much communication and computation slow each other."""
    points = passes_of(r for r in records if r.probe == "overlap")
    if not points:
        return None
    rows = []
    for passes in points:
        model, p = fit_overlap([passes]), passes[0].params
        rows.append(
            (format_bytes(float(str(p["bytes"]))), f"{p['m']}x{p['n']}x{p['k']} {p['dtype']}", str(passes[0].world.ranks),
             f"{model.compute:.2f}", f"{model.collective:.2f}", passes[0].id)
        )  # fmt: skip
    columns = (
        "all-reduce",
        "products",
        "ranks",
        "computation slows by",
        "all-reduce slows by",
        "record",
    )
    return Section(
        anchor="overlap",
        title="Overlap",
        sentences=(
            "Factors while both run. 1.00 is free overlap; on a CPU the backend's threads take the cores' time.",
        ),
        table=Table(columns=columns, rows=tuple(rows)),
    )
