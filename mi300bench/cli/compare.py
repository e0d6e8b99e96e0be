"""mi300bench compare."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mi300bench.cli import show
from mi300bench.cli.options import json_option, say, store_option
from mi300bench.errors import CheckError, PlanError, RecordError
from mi300bench.fit.comparison import Compared, compare, odd_ones
from mi300bench.fit.sides import ATTRIBUTES, dated_steps, side_of, slow_parts, split
from mi300bench.flow.comparing import chosen
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement
from mi300bench.stats import SMALLEST_EFFECT, Verdict
from mi300bench.store.reader import read_records

SHOWN = 20


@click.command("compare")
@click.argument("sides", nargs=-1, metavar="[A B ...]")
@click.option("--by", type=click.Choice(list(ATTRIBUTES)), help="Instead of sides: split the store by this.")
@click.option("--effect", type=float, default=100 * SMALLEST_EFFECT, show_default=True, help="Smallest change that counts, in %.")
@click.option("--all", "everything", is_flag=True, help="Show every point, not the changed alone.")
@store_option
@json_option
def command(*, sides: tuple[str, ...], by: str | None, effect: float, everything: bool, store: Path, as_json: bool) -> None:
    """Which point, node, GPU or pair got slower, by how much, how sure, and since when.

    A side is a store's or a node's folder, node:NAME or run:ID. Two sides are compared point by point, each of more with
    the median of all; with --by node the store's own nodes are the sides. Exits with 6 where something is slower, for CI.
    """
    if not 0 < effect < 100:
        raise PlanError(f"an effect of {effect:g} % is none", hint="--effect 3")
    found = _sides(sides, by, store)
    smallest = effect / 100
    if len(found) == 2:
        _two(found, smallest, everything=everything, as_json=as_json)
    else:
        _several(found, smallest, as_json=as_json)


def _sides(texts: Sequence[str], by: str | None, store: Path) -> dict[str, tuple[Measurement, ...]]:
    if by is not None:
        if texts:
            raise PlanError("--by and named sides exclude each other", hint="one of them")
        found = split(read_records(store, warn=say), by)
        if not found:
            raise RecordError(f"the store {store} holds no record", hint="measure first: mi300bench hbm")
        return found
    if len(texts) < 2:
        raise PlanError("a comparison needs two sides or more", hint="compare runs/a runs/b, or --by node")
    return {text: chosen(text, store, say) for text in texts}


def _said(ratio: Interval) -> str:
    return f"{ratio.mid:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _two(sides: Mapping[str, Sequence[Measurement]], smallest: float, *, everything: bool, as_json: bool) -> None:
    (a, first), (b, second) = sides.items()
    rows = compare(side_of(first), side_of(second), smallest=smallest)
    if not rows:
        raise RecordError("the sides have no point in common", hint="the same sweep on both; see mi300bench query")
    parts, steps = slow_parts([*first, *second]), dated_steps({b: [*first, *second]})
    if as_json:
        click.echo(json.dumps({"points": [_plain(row) for row in rows], "parts": [asdict(p) for p in parts]}))
    else:
        counts = {verdict: sum(row.verdict is verdict for row in rows) for verdict in Verdict}
        click.echo(f"{b} over {a}, ratio of seconds; {len(rows)} points in common")
        show.table([str(v) for v in counts], [list(counts.values())])
        changed = [row for row in rows if everything or row.verdict in (Verdict.SLOWER, Verdict.FASTER)]
        if changed:
            show.table(("verdict", "seconds", "point", "records"), [_row(row) for row in changed[: None if everything else SHOWN]])
        _parts_and_steps(parts, steps)
    slower = [row for row in rows if row.verdict is Verdict.SLOWER]
    if slower:
        raise CheckError(f"{len(slower)} of {len(rows)} points got slower, {slower[0].key} by {slower[0].ratio.mid - 1:.1%}",
                         hint="measure them again: mi300bench sweep again ID")  # fmt: skip


def _row(row: Compared) -> tuple[object, ...]:
    return row.verdict, _said(row.ratio), row.key, f"{row.first[0]} {row.second[0]}"


def _plain(row: Compared) -> dict[str, Any]:
    return asdict(row) | {"verdict": str(row.verdict)}


def _several(sides: Mapping[str, Sequence[Measurement]], smallest: float, *, as_json: bool) -> None:
    if len(sides) < 3:
        raise PlanError(f"there is only {', '.join(sides)} to compare", hint="two sides or more")
    rows = odd_ones({name: side_of(records) for name, records in sides.items()}, smallest=smallest)
    if not rows:
        raise RecordError("the sides have no point in common", hint="the same sweep on all of them; see mi300bench query")
    steps, parts = dated_steps(sides), slow_parts(record for records in sides.values() for record in records)
    odd = [row for row in rows if row.is_odd]
    if as_json:
        document = {"sides": [asdict(r) for r in rows], "steps": [asdict(s) for s in steps], "parts": [asdict(p) for p in parts]}
        click.echo(json.dumps(document))
    else:
        click.echo(f"{len(sides)} sides, seconds over the median of all")
        shown = rows[:SHOWN]
        show.table(
            ("odd", "side", "family", "seconds", "slower points", "worst"),
            [("yes" if r.is_odd else "", r.name, r.family, _said(r.ratio), f"{r.slower} of {r.points}", r.worst) for r in shown],
        )
        _parts_and_steps(parts, steps)
    if odd:
        since = next((s for s in steps if s.name == odd[0].name), None)
        dated = f", since {since.since}" if since else ""
        took = f"{odd[0].family} takes {odd[0].ratio.mid:.3f} of their time"
        raise CheckError(f"{odd[0].name} is slower than the others: {took}{dated}",
                         hint=f"mi300bench compare node:{odd[0].name} and another node, or look at {odd[0].worst}")  # fmt: skip


def _parts_and_steps(parts: Sequence[Any], steps: Sequence[Any]) -> None:
    if parts:
        rows = [(p.name, _said(p.ratio), p.of, p.evidence[0]) for p in parts[:SHOWN]]
        show.table(("slow part", "seconds over the others", "records", "such as"), rows)
    if steps:
        dated = [(s.name, _said(s.ratio), s.since, s.run, s.runs) for s in steps[:SHOWN]]
        show.table(("step in the history of", "seconds", "since", "first run after it", "runs"), dated)
