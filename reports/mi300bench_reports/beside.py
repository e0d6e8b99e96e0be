"""Nodes and runs beside each other: which is the odd one out, what changed since the run before, and since when."""

from collections.abc import Sequence

from mi300bench.fit.comparison import Odd, compare, odd_ones
from mi300bench.fit.sides import dated_steps, side_of, slow_parts, split
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.stats import Verdict

from mi300bench_reports.page import Section, Table

MOST_ROWS = 200
NODE_COLUMNS = ("stands out", "node", "probes", "seconds over the median", "slower points", "worst point")


def _said(ratio: Interval) -> str:
    return f"{ratio.mid:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _measured(records: Sequence[Measurement]) -> list[Measurement]:
    return [r for r in records if r.outcome is Outcome.OK and not r.probe.endswith((".plan", ".train"))]


def nodes(records: Sequence[Measurement]) -> Section | None:
    """Return the nodes of a store beside each other, three or more of them."""
    sides = {name: side_of(found) for name, found in split(_measured(records), "node").items()}
    if len(sides) < 3:
        return None
    rows = odd_ones(sides)
    if not rows:
        return None
    odd = [row for row in rows if row.is_odd]
    named = "; ".join(f"{row.name}: {row.family} takes {_said(row.ratio)} of the median's time" for row in odd)
    return Section(
        anchor="nodes",
        title="Nodes beside each other",
        sentences=(
            f"Standing out: {named}." if odd else f"None of {len(sides)} nodes stands out.",
            "Seconds of the newest run of each point over the median of all nodes.",
        ),
        table=Table(columns=NODE_COLUMNS, rows=tuple(_node_row(row) for row in rows[:MOST_ROWS])),
    )


def _node_row(row: Odd) -> tuple[str, ...]:
    stands_out = "yes" if row.is_odd else ""
    return stands_out, row.name, row.family, _said(row.ratio), f"{row.slower} of {row.points}", row.worst


def changes(records: Sequence[Measurement]) -> Section | None:
    """Return what changed between the last two runs that share points, node by node, and the steps in histories."""
    rows: list[tuple[str, ...]] = []
    every = 0
    for node, own in split(_measured(records), "node").items():
        runs = sorted(split(own, "run").values(), key=lambda found: found[0].started_at)
        pair = next(((a, runs[-1]) for a in reversed(runs[:-1]) if {r.point for r in a} & {r.point for r in runs[-1]}), None)
        if pair is None:
            continue
        compared = compare(side_of(pair[0]), side_of(pair[1]))
        every += len(compared)
        rows += [
            (node, str(row.verdict), _said(row.ratio), row.key, f"{row.first[0]} {row.second[0]}")
            for row in compared
            if row.verdict in (Verdict.SLOWER, Verdict.FASTER)
        ]
    steps = dated_steps(split(_measured(records), "node"))
    if not every and not steps:
        return None
    sentences = [f"{len(rows)} of {every} points changed between the last two runs that have them (over 3 % and beyond the noise)."]
    sentences += [f"{s.name}: a step to {_said(s.ratio)} of its seconds since {s.since}, run {s.run}." for s in steps]
    sentences += [f"{p.name} takes {_said(p.ratio)} of the others' time in {p.of} record(s)." for p in slow_parts(records)]
    columns = ("node", "verdict", "seconds over before", "point", "records")
    return Section(
        anchor="changes",
        title="What changed",
        sentences=tuple(sentences),
        table=Table(columns=columns, rows=tuple(rows[:MOST_ROWS])) if rows else None,
    )
