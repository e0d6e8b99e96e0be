"""Parts of a machine compared with each other: ranks of a group, and pairs of devices."""

from collections.abc import Sequence

from mi300bench import stats
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.store.newest import runs_by_point
from mi300bench.units import format_bytes

from mi300bench_reports.charts.heat import heat
from mi300bench_reports.elements import Section

MOST_ROWS = 24
FEWEST_RANKS = 3


def ranks(records: Sequence[Measurement]) -> Section | None:
    """Return the time of each rank over the median of all, for the largest messages."""
    points = [r for r in records if r.outcome is Outcome.OK and len(r.rank_samples) >= FEWEST_RANKS]
    if not points:
        return None
    most = max(len(record.rank_samples) for record in points)
    largest = [record for record in points if len(record.rank_samples) == most]
    newest = [runs[-1][-1] for runs in runs_by_point(largest, lambda r: r.point).values()]
    shown = sorted(newest, key=lambda r: -(r.work.message_bytes or r.work.flop))[:MOST_ROWS]
    return Section(
        anchor="ranks",
        title="Time by rank",
        sentences=(
            f"Time of each of {most} ranks over the median of all, by point. A red column is a "
            "slow rank; a blue column is a rank that the others wait for.",
        ),
        chart=heat(
            [_ratios(record) for record in shown],
            rows=[_label(record) for record in shown],
            columns=[str(rank) for rank in range(most)],
            label="time / median",
            x_label="rank",
            middle=1.0,
            alt="Time of each rank over the median of all",
        ),
        evidence=tuple(record.id for record in shown),
    )


def _ratios(record: Measurement) -> list[float]:
    medians = [stats.typical(samples) for samples in record.rank_samples]
    middle = stats.typical(medians)
    return [median / middle for median in medians]


def _label(record: Measurement) -> str:
    size = record.work.message_bytes
    return f"{record.probe} {format_bytes(size)}" if size else record.probe


def pairs(records: Sequence[Measurement]) -> Section | None:
    """Return the bandwidth from each device to each other, of their largest transfer."""
    largest: dict[tuple[str, str], Measurement] = {}
    for record in records:
        source, target = record.params.get("src"), record.params.get("dst")
        if record.probe != "transfer" or record.outcome is not Outcome.OK or source == target:
            continue
        pair = str(source), str(target)
        known = largest.get(pair)
        if known is None or record.work.message_bytes >= known.work.message_bytes:
            largest[pair] = record
    names = sorted({name for pair in largest for name in pair})
    if len(names) < 2:
        return None
    rates = {
        pair: record.work.message_bytes / stats.seconds_per_call(record) / 1e9
        for pair, record in largest.items()
    }
    return Section(
        anchor="pairs",
        title="Bandwidth between devices",
        sentences=("GB/s of the largest transfer from each device (row) to each other (column).",),
        chart=heat(
            [[rates.get((source, target)) for target in names] for source in names],
            rows=names,
            columns=names,
            label="GB/s",
            x_label="to",
            y_label="from",
            alt="Bandwidth from each device to each other",
            has_values=True,
        ),
        evidence=tuple(record.id for record in largest.values()),
    )
