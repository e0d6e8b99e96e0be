"""Nodes and runs beside each other: which is the odd one out, what changed since the run before, and since when."""

from collections.abc import Sequence

from mi300bench.comparison.outliers import Odd, odd_ones
from mi300bench.comparison.points import compare
from mi300bench.comparison.probe_shift import moved
from mi300bench.comparison.sides import began, dated_changes, side_of, slow_parts, split
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.stats import Verdict

from mi300bench_reports.page import Section, Table

MOST_ROWS = 200
CHANGED = (Verdict.SLOWER, Verdict.FASTER)
NODE_COLUMNS = (
    "stands out",
    "node",
    "probes",
    "seconds over the others",
    "points",
    "worst point",
    "of the median's time",
)


def _measured(records: Sequence[Measurement]) -> list[Measurement]:
    return [
        r for r in records if r.outcome is Outcome.OK and not r.probe.endswith((".plan", ".train"))
    ]


def nodes(records: Sequence[Measurement]) -> Section | None:
    """Return the nodes of a store beside each other, three or more of them."""
    sides = {name: side_of(found) for name, found in split(_measured(records), "node").items()}
    if len(sides) < 3:
        return None
    rows = odd_ones(sides)
    if not rows:
        return None
    odd = [row for row in rows if row.is_odd]
    named = "; ".join(
        f"{row.name}: {row.family} takes {row.ratio.as_ratio} of the others' time" for row in odd
    )
    return Section(
        anchor="nodes",
        title="Nodes beside each other",
        sentences=(
            f"Standing out: {named}." if odd else f"None of {len(sides)} nodes stands out.",
            "Seconds of the newest run of each point, the median over points, over the mean of the other nodes.",
        ),
        table=Table(columns=NODE_COLUMNS, rows=tuple(_node_row(row) for row in rows[:MOST_ROWS])),
    )


def _node_row(row: Odd) -> tuple[str, ...]:
    stands_out = "yes" if row.is_odd else ""
    return (
        stands_out,
        row.name,
        row.family,
        row.ratio.as_ratio,
        str(row.points),
        row.worst,
        f"{row.worst_ratio:.3f}",
    )


def changes(records: Sequence[Measurement]) -> Section | None:
    """Return what changed between the last two runs that share points, node by node, and the steps in histories."""
    rows: list[tuple[str, ...]] = []
    every, sentences = 0, []
    for node, own in split(_measured(records), "node").items():
        runs = sorted(split(own, "run").values(), key=began)
        pair = next(
            (
                (a, runs[-1])
                for a in reversed(runs[:-1])
                if {r.point for r in a} & {r.point for r in runs[-1]}
            ),
            None,
        )
        if pair is None:
            continue
        before, after = side_of([r for run in runs[:-1] for r in run]), side_of(runs[-1])
        compared = compare(before, after)
        every += len(compared)
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
        whole = [row for row in moved(before, after) if row.verdict in CHANGED]
        sentences += [
            f"{node}: {row.family} as a whole takes {row.ratio.as_ratio} of its time before."
            for row in whole
        ]
    dated = dated_changes(split(_measured(records), "node"))
    if not every and not dated:
        return None
    sentences.insert(
        0,
        f"{len(rows)} of {every} points changed from the run before to the newest (over 3 %, beyond the noise and what all share).",
    )
    sentences += [f"{change.said}." for change in dated]
    sentences += [
        f"{p.name}: {p.ratio.as_ratio} of the others' time in {p.of} record(s)."
        for p in slow_parts(records)
    ]
    columns = ("node", "verdict", "seconds over before", "point", "records")
    return Section(
        anchor="changes",
        title="What changed",
        sentences=tuple(sentences),
        table=Table(columns=columns, rows=tuple(rows[:MOST_ROWS])) if rows else None,
    )
