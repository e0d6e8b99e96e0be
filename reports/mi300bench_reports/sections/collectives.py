"""Collectives: bandwidth over message size with the fitted link, by the number of ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

from mi300bench import physics, stats
from mi300bench.errors import RecordError
from mi300bench.fit.link import LinkModel, fit_link
from mi300bench.hw.reference import normal
from mi300bench.schema.record import Measurement
from mi300bench.store.newest import newest_passes
from mi300bench.units import format_bytes

from mi300bench_reports import as_text
from mi300bench_reports.charts import lines
from mi300bench_reports.elements import Section, Table
from mi300bench_reports.peaks import device_facts

# Above this error, a fit is of no use for predictions.
USEFUL_ERROR = 0.3
TORCH, JAX = "collective", "jax.collective"
COLUMNS = (
    "operation",
    "latency",
    "algbw of large messages",
    "busbw",
    "knee",
    "kink",
    "held-out error (p90)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedOperation:
    """One collective operation: its points, the link fitted to them, and busbw over algbw."""

    op: str
    points: Sequence[Sequence[Measurement]]
    link: LinkModel
    busbw_factor: float


def collectives(records: Sequence[Measurement]) -> list[Section]:
    """Return one section for each number of ranks, those of torch before those of JAX."""
    points = newest_passes(
        record
        for record in records
        if record.probe.startswith((f"{TORCH}.", f"{JAX}."))
        and "inflight" not in record.params
        and not record.params.get("in_place")
    )
    groups: dict[tuple[str, int], list[Sequence[Measurement]]] = {}
    for passes in points:
        prefix = passes[0].probe.rpartition(".")[0]
        groups.setdefault((prefix, passes[0].world.ranks), []).append(passes)
    sections = (_section(prefix, ranks, groups[prefix, ranks]) for prefix, ranks in sorted(groups))
    return [section for section in sections if section is not None]


def _section(prefix: str, ranks: int, points: Sequence[Sequence[Measurement]]) -> Section | None:
    fitted = _fitted(prefix, ranks, points)
    if not fitted:
        return None
    first = points[0][0]
    is_jax = first.world.framework == "jax"
    place = f"{ranks} devices of a mesh, with JAX" if is_jax else f"{ranks} ranks"
    start = "one process" if is_jax else f"launcher {first.conditions.get('launcher', 'unknown')}"
    return Section(
        anchor=f"{'jax-' if is_jax else ''}collectives-{ranks}",
        title=f"Collectives on {place}",
        sentences=(
            f"Backend {first.conditions.get('backend', 'unknown')}, {start}. "
            "algbw = size / time. busbw = algbw x factor: 2(n-1)/n for all_reduce; (n-1)/n for "
            "all_gather, reduce_scatter and all_to_all; 1 for the others. "
            "At the knee, latency and transfer take equal time. At the kink, the slope changes.",
            *(
                f"Doubt: the fit of {operation.op} is off by {operation.link.typical_error:.0%} "
                "for held-out sizes. Measure more sizes."
                for operation in fitted
                if operation.link.typical_error > USEFUL_ERROR
            ),
        ),
        chart=lines.by_size(
            [curve for operation in fitted for curve in _curves(operation)],
            x_label="message size S",
            y_label="algbw, GB/s",
            ranges=[bar for operation in fitted for bar in _published_ranges(operation, ranks)],
            alt=f"Bandwidth of collectives on {place}",
        ),
        table=Table(columns=COLUMNS, rows=tuple(_row(operation) for operation in fitted)),
        evidence=tuple(identity for operation in fitted for identity in operation.link.evidence),
    )


def _fitted(
    prefix: str, ranks: int, points: Sequence[Sequence[Measurement]]
) -> list[FittedOperation]:
    """Return the operations with enough sizes for a curve; the table of all points has the rest."""
    fitted = []
    for op in physics.COLLECTIVES:
        own = [passes for passes in points if passes[0].probe == f"{prefix}.{op}"]
        if not own:
            continue
        try:
            link = fit_link(own)
        except RecordError:
            continue
        factor = physics.busbw_factor(op, ranks)
        fitted.append(FittedOperation(op=op, points=own, link=link, busbw_factor=factor))
    return fitted


def _curves(operation: FittedOperation) -> tuple[lines.Curve, lines.Curve]:
    """Return the measured algbw over size, and that of latency + size / bandwidth."""
    link = operation.link
    measured = lines.Curve(
        label=operation.op,
        x=link.sizes,
        y=tuple(size / taken / 1e9 for size, taken in zip(link.sizes, link.seconds, strict=True)),
    )
    fit = lines.Curve(
        label=f"{as_text.seconds(link.latency_s)} + S / {as_text.byte_rate(link.bandwidth)}",
        x=link.sizes,
        y=tuple(size / (link.latency_s + size / link.bandwidth) / 1e9 for size in link.sizes),
        is_fit=True,
    )
    return measured, fit


def _row(operation: FittedOperation) -> tuple[str, ...]:
    link = operation.link
    return (
        operation.op,
        as_text.seconds(link.latency_s),
        as_text.byte_rate(link.bandwidth),
        as_text.byte_rate(link.bandwidth * operation.busbw_factor),
        format_bytes(link.knee_bytes),
        format_bytes(link.kink_bytes) if link.kink_bytes else "none",
        f"{link.typical_error:.1%}",
    )


def _published_ranges(operation: FittedOperation, ranks: int) -> list[tuple[float, float, float]]:
    """Return (size, low, high) in GB/s algbw that others published for about the same sizes."""
    ranges = []
    for passes in operation.points:
        first, factor = passes[0], operation.busbw_factor
        device = device_facts(first)
        if device is None:
            continue
        size = first.work.message_bytes
        known = normal(
            device.key,
            f"collective.{operation.op}",
            size / stats.interval_of(passes).mid * factor,
            ranks=ranks,
            size=size,
        )
        if known is not None:
            ranges.append((size, known.low / factor / 1e9, known.high / factor / 1e9))
    return ranges
