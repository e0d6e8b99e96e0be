"""Memory bandwidth over footprint, through the caches, and by row size."""

import itertools
from collections.abc import Sequence

from mi300bench import stats
from mi300bench.fit.roofline import MemoryCurve, fit_memory
from mi300bench.hw.facts import Fact
from mi300bench.schema.doubt import VariantsDisagree
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.store.newest import newest_passes
from mi300bench.units import format_bytes

from mi300bench_reports import as_text
from mi300bench_reports.charts import lines
from mi300bench_reports.elements import Section, Table
from mi300bench_reports.peaks import published_peak, share_of_peak

# If two kernels of one pattern differ by more, the slower one measures itself, not the memory.
VARIANTS_MAY_DIFFER = 0.10
ROW_COLUMNS = ("pattern", "array", "row size", "variant", "bandwidth")


def memory(records: Sequence[Measurement]) -> Section | None:
    """Return bandwidth over footprint with the knees of each curve, and bandwidth by row size."""
    own = [r for r in records if r.probe.startswith("memory.") and r.outcome is Outcome.OK]
    if not own:
        return None
    curves = _curves([record for record in own if "row_bytes" not in record.params])
    peak = published_peak(own[0], "memory_bandwidth")
    return Section(
        anchor="memory",
        title="Memory",
        sentences=(*(_sentence(curve, peak) for curve in curves), *_disagreements(curves)),
        chart=_chart(curves, cache_bytes=own[0].conditions.get("cache_bytes")),
        table=_row_table([record for record in own if "row_bytes" in record.params]),
        evidence=tuple(identity for curve in curves for identity in curve.evidence),
    )


def _curves(records: Sequence[Measurement]) -> list[MemoryCurve]:
    groups: dict[tuple[str, str, str], list[Sequence[Measurement]]] = {}
    for passes in newest_passes(records):
        first = passes[0]
        key = (first.probe, str(first.params.get("variant", "op")), str(first.params.get("dtype")))
        groups.setdefault(key, []).append(passes)
    return [fit_memory(group) for group in groups.values()]


def _sentence(curve: MemoryCurve, peak: Fact | None) -> str:
    knees = ", ".join(format_bytes(knee) for knee in curve.knees)
    return (
        f"{curve.pattern} ({curve.variant}): {as_text.byte_rate(curve.sustained)} at the largest "
        f"footprints, {share_of_peak(curve.sustained, peak)}"
        + (f"; bandwidth falls at {knees}." if knees else ".")
    )


def _disagreements(curves: Sequence[MemoryCurve]) -> list[str]:
    """Return a doubt for each pattern whose variants differ at their largest common footprint."""
    sentences = []
    for one, other in itertools.combinations(curves, 2):
        common = set(one.footprints) & set(other.footprints)
        if one.pattern != other.pattern or one.variant == other.variant or not common:
            continue
        size = max(common)
        (slow, slow_variant), (fast, fast_variant) = sorted(
            (curve.bandwidths[curve.footprints.index(size)], curve.variant)
            for curve in (one, other)
        )
        if fast / slow > 1 + VARIANTS_MAY_DIFFER:
            doubt = VariantsDisagree(faster=fast_variant, slower=slow_variant, ratio=fast / slow)
            sentences.append(f"{one.pattern} at {format_bytes(size)}: {doubt}")
    return sentences


def _chart(curves: Sequence[MemoryCurve], *, cache_bytes: object) -> str:
    drawn = [
        lines.Curve(
            label=f"{curve.pattern} ({curve.variant})",
            x=curve.footprints,
            y=tuple(bandwidth / 1e9 for bandwidth in curve.bandwidths),
        )
        for curve in curves
        if len(curve.footprints) > 1
    ]
    if not drawn:
        return ""
    return lines.by_size(
        drawn,
        x_label="footprint",
        y_label="GB/s (1e9 B/s)",
        alt="Memory bandwidth over footprint",
        marks=[(float(str(cache_bytes)), "last-level cache")] if cache_bytes else [],
        log_y=False,
    )


def _row_table(records: Sequence[Measurement]) -> Table | None:
    """Return bandwidth by the size of the rows that are read or written whole."""
    rows = []
    for passes in newest_passes(records):
        first, seconds = passes[0], stats.interval_of(passes).mid
        rows.append(
            (
                first.probe.removeprefix("memory."),
                format_bytes(float(str(first.params["bytes"]))),
                f"{first.params['row_bytes']} B",
                str(first.params.get("variant", "op")),
                as_text.byte_rate(stats.bandwidth(first.work, seconds)),
            )
        )
    return Table(columns=ROW_COLUMNS, rows=tuple(rows)) if rows else None
