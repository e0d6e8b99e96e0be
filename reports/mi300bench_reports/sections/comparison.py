"""Nodes compared with each other, and each node's newest run compared with the runs before."""

from collections.abc import Sequence

from mi300bench.comparison.outliers import Odd, odd_ones
from mi300bench.comparison.points import compare
from mi300bench.comparison.probe_shift import probe_shifts
from mi300bench.comparison.sides import dated_changes, side_of, slow_parts, split
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.stats import Verdict
from mi300bench.store.newest import began

from mi300bench_reports.elements import Section, Table

MOST_ROWS = 200
FEWEST_NODES = 3
CHANGED = (Verdict.SLOWER, Verdict.FASTER)
NODE_COLUMNS = (
    "slow",
    "node",
    "probes",
    "time / other nodes",
    "points",
    "slowest point",
    "its time / median",
)
CHANGE_COLUMNS = ("node", "verdict", "time / before", "point", "records")


def nodes(records: Sequence[Measurement]) -> Section | None:
    """Return three or more nodes of a store compared with each other, the slowest first."""
    sides = {node: side_of(own) for node, own in split(_comparable(records), "node").items()}
    if len(sides) < FEWEST_NODES:
        return None
    rows = odd_ones(sides)
    if not rows:
        return None
    slow = "; ".join(
        f"{row.name}, {row.family}: time ratio {row.ratio.as_ratio}" for row in rows if row.is_odd
    )
    return Section(
        anchor="nodes",
        title="Nodes compared",
        sentences=(
            f"Slow nodes: {slow}." if slow else f"None of {len(sides)} nodes is slow.",
            "A ratio is the time of a node over the mean of the other nodes: the median over "
            "points, each from its newest run.",
        ),
        table=Table(columns=NODE_COLUMNS, rows=tuple(_node_row(row) for row in rows[:MOST_ROWS])),
    )


def _comparable(records: Sequence[Measurement]) -> list[Measurement]:
    return [
        r for r in records if r.outcome is Outcome.OK and not r.probe.endswith((".plan", ".train"))
    ]


def _node_row(row: Odd) -> tuple[str, ...]:
    return (
        "yes" if row.is_odd else "",
        row.name,
        row.family,
        row.ratio.as_ratio,
        str(row.points),
        row.worst,
        f"{row.worst_ratio:.3f}",
    )


def changes(records: Sequence[Measurement]) -> Section | None:
    """Return what changed between the last two runs that share points, and since when."""
    rows: list[tuple[str, ...]] = []
    probe_sentences: list[str] = []
    num_compared = 0
    by_node = split(_comparable(records), "node")
    for node, own in by_node.items():
        runs = sorted(split(own, "run").values(), key=began)
        newest, earlier = runs[-1], runs[:-1]
        points = {record.point for record in newest}
        if not any(record.point in points for run in earlier for record in run):
            continue
        before, after = side_of([record for run in earlier for record in run]), side_of(newest)
        compared = compare(before, after)
        num_compared += len(compared)
        rows += [
            (
                node,
                str(row.verdict),
                row.ratio.as_ratio,
                row.label,
                f"{row.first[0]} {row.second[0]}",
            )
            for row in compared
            if row.verdict in CHANGED
        ]
        probe_sentences += [
            f"{node}: all points of {row.family} together: time ratio {row.ratio.as_ratio}."
            for row in probe_shifts(before, after)
            if row.verdict in CHANGED
        ]
    dated = dated_changes(by_node)
    if not num_compared and not dated:
        return None
    return Section(
        anchor="changes",
        title="What changed",
        sentences=(
            f"{len(rows)} of {num_compared} points changed from the earlier runs to the newest run "
            "(by over 3 %, beyond the noise). Drift common to all points of a probe was "
            "subtracted. A ratio is the time of the newest run over the time before.",
            *probe_sentences,
            *(f"{change.sentence}." for change in dated),
            *(
                f"{part.name}: time ratio {part.ratio.as_ratio} to the others, "
                f"in {part.of} record(s)."
                for part in slow_parts(records)
            ),
        ),
        table=Table(columns=CHANGE_COLUMNS, rows=tuple(rows[:MOST_ROWS])) if rows else None,
    )
