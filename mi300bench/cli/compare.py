"""mi300bench compare."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mi300bench.cli import show
from mi300bench.cli.options import json_option, say, store_option
from mi300bench.comparison.outliers import odd_ones
from mi300bench.comparison.points import Compared, compare
from mi300bench.comparison.probe_shift import moved
from mi300bench.comparison.read_sides import chosen
from mi300bench.comparison.sides import (
    ATTRIBUTES,
    Apart,
    Dated,
    apart,
    dated_changes,
    side_of,
    slow_parts,
    split,
)
from mi300bench.errors import CheckError, PlanError, RecordError
from mi300bench.schema.record import Measurement
from mi300bench.stats import SMALLEST_EFFECT, Verdict
from mi300bench.store.reader import read_records

SHOWN = 20


@click.command("compare")
@click.argument("sides", nargs=-1, metavar="[A B ...]")
@click.option(
    "--by", type=click.Choice(list(ATTRIBUTES)), help="Instead of sides: split the store by this."
)
@click.option(
    "--effect",
    type=float,
    default=100 * SMALLEST_EFFECT,
    show_default=True,
    help="Smallest change that counts, in %.",
)
@click.option("--all", "everything", is_flag=True, help="Show every point, not the changed alone.")
@store_option
@json_option
def command(
    *,
    sides: tuple[str, ...],
    by: str | None,
    effect: float,
    everything: bool,
    store: Path,
    as_json: bool,
) -> None:
    """Which point, node, GPU or pair got slower, by how much, how sure, and since when.

    A side is a store's or a node's folder, node:NAME or run:ID. Two sides are compared point by point (folders of several nodes
    node by node), each of more with the others; with --by node the store's own nodes are the sides. Exits with 6, for CI, where
    B got slower or lost a result; of sides that --by splits, where one is slower than the other or the others, or slowed down.
    """
    if not 0 < effect < 100:
        raise PlanError(f"an effect of {effect:g} % is none", hint="--effect 3")
    found = _sides(sides, by, store)
    smallest = effect / 100
    if len(found) == 2:
        _two(found, smallest, everything=everything, as_json=as_json, is_split=by is not None)
    else:
        _several(found, smallest, as_json=as_json)


def _sides(texts: Sequence[str], by: str | None, store: Path) -> dict[str, tuple[Measurement, ...]]:
    if by is not None:
        if texts:
            raise PlanError("--by and named sides exclude each other", hint="one of them")
        found = split(read_records(store, warn=say), by)
        if not found:
            raise RecordError(
                f"the store {store} holds no record", hint="measure first: mi300bench hbm"
            )
        return found
    if len(texts) < 2:
        raise PlanError(
            "a comparison needs two sides or more", hint="compare runs/a runs/b, or --by node"
        )
    if len({_place(text) for text in texts}) < len(texts):
        raise PlanError(
            "a side is named twice", hint="a side compared with itself shows nothing: name another"
        )
    return {text: chosen(text, store, say) for text in texts}


def _place(text: str) -> str:
    return str(Path(text).resolve()) if Path(text).is_dir() else text


def _shown(texts: Sequence[str], most: int = 4) -> str:
    return "; ".join(texts[:most]) + (
        f"; and {len(texts) - most} more" if len(texts) > most else ""
    )


def _two(
    sides: Mapping[str, Sequence[Measurement]], smallest: float, *, everything: bool, as_json: bool, is_split: bool
) -> None:  # fmt: skip
    (a, first), (b, second) = sides.items()
    by_node = not is_split and any(
        len({record.node for record in side}) > 1 for side in (first, second)
    )
    one, other = (side_of(records, by_node=by_node) for records in (first, second))
    rows, whole = compare(one, other, smallest=smallest), moved(one, other, smallest=smallest)
    unshared = apart(first, second, by_node=by_node)
    if not rows and not unshared.broken:
        one_has, other_has = (
            _shown(unshared.only_first, 2) or "nothing",
            _shown(unshared.only_second, 2) or "nothing",
        )
        raise PlanError(
            f"the sides have no point in common: {a} has {one_has}, {b} has {other_has}",
            hint="run the same sweep on both; imported, measured and emulated records never meet",
        )
    parts, changes = slow_parts([*first, *second]), dated_changes(sides)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "points": [_plain(row) for row in rows],
                    "families": [_plain(row) for row in whole],
                    "apart": asdict(unshared),
                    "parts": [asdict(p) for p in parts],
                    "changes": [asdict(c) for c in changes],
                }
            )
        )
    else:
        counts = {verdict: sum(row.verdict is verdict for row in rows) for verdict in Verdict}
        click.echo(f"{b} over {a}, ratio of seconds; {len(rows)} points in common")
        show.table([str(v) for v in counts], [list(counts.values())])
        if whole:
            show.table(
                ("probes", "points", "seconds, median", "verdict"),
                [(r.family, r.points, r.ratio.as_ratio, r.verdict) for r in whole],
            )
        if any(row.shared != 1 for row in rows):
            click.echo(
                "what a probe's points share, where the probe has not changed as a whole, is taken off them: the machine's drift"
            )
        changed = [
            row for row in rows if everything or row.verdict in (Verdict.SLOWER, Verdict.FASTER)
        ]
        if changed:
            show.table(
                ("verdict", "seconds", "point", "records"),
                [_row(row) for row in changed[: None if everything else SHOWN]],
            )
        _parts_and_changes(parts, changes)
        _apart(a, b, unshared)
    _judge_two((a, b), rows, whole, unshared, is_split=is_split)


def _judge_two(
    names: tuple[str, str],
    rows: Sequence[Compared],
    whole: Sequence[Any],
    unshared: Apart,
    *,
    is_split: bool,
) -> None:
    """Raise where B is slower or lost results; of two sides that are equals, where either is slower."""
    if unshared.broken:
        raise CheckError(f"{len(unshared.broken)} points have no result any more on {names[1]}: {_shown(unshared.broken, 2)}",
                         hint="measure them again: --resume of the same command")  # fmt: skip
    for verdict, name in (
        (Verdict.SLOWER, names[1]),
        *([(Verdict.FASTER, names[0])] if is_split else []),
    ):
        found = sorted(
            (row for row in rows if row.verdict is verdict), key=lambda row: -abs(row.ratio.mid - 1)
        )
        if found:
            said = f"{len(found)} of {len(rows)} points are slower on {name}, {found[0].label}: {found[0].ratio.as_ratio}"
            raise CheckError(
                said, hint=f"measure it again: mi300bench sweep again {found[0].second[0]}"
            )
        as_whole = [row for row in whole if row.verdict is verdict]
        if as_whole:
            raise CheckError(f"{as_whole[0].family} as a whole is slower on {name}: {as_whole[0].ratio.as_ratio}",
                             hint="--all shows its points; earlier runs of a side tell noise from change")  # fmt: skip


def _row(row: Compared) -> tuple[object, ...]:
    return row.verdict, row.ratio.as_ratio, row.label, f"{row.first[0]} {row.second[0]}"


def _plain(row: Any) -> dict[str, Any]:
    return asdict(row) | {"verdict": str(row.verdict)}


def _several(sides: Mapping[str, Sequence[Measurement]], smallest: float, *, as_json: bool) -> None:
    if len(sides) < 3:
        raise PlanError(f"there is only {', '.join(sides)} to compare", hint="two sides or more")
    rows = odd_ones({name: side_of(records) for name, records in sides.items()}, smallest=smallest)
    if not rows:
        raise PlanError(
            "no point is on three sides or more",
            hint="the same sweep on all of them; see mi300bench query",
        )
    changes, parts = (
        dated_changes(sides),
        slow_parts(record for records in sides.values() for record in records),
    )
    odd = [row for row in rows if row.is_odd]
    if as_json:
        document = {
            "sides": [asdict(r) for r in rows],
            "changes": [asdict(c) for c in changes],
            "parts": [asdict(p) for p in parts],
        }
        click.echo(json.dumps(document))
    else:
        click.echo(f"{len(sides)} sides, seconds over the others'")
        show.table(
            ("odd", "side", "family", "seconds", "points", "worst", "of the median"),
            [
                (
                    "yes" if r.is_odd else "",
                    r.name,
                    r.family,
                    r.ratio.as_ratio,
                    r.points,
                    r.worst,
                    f"{r.worst_ratio:.3f}",
                )
                for r in rows[:SHOWN]
            ],
        )
        _parts_and_changes(parts, changes)
    slowed = [change for change in changes if change.ratio.mid > 1]
    if odd:
        since = next(
            (c for c in slowed if (c.name, c.family) == (odd[0].name, odd[0].family)), None
        )
        dated = f", since {since.since}" if since else ""
        took = f"{odd[0].family} takes {odd[0].ratio.mid:.3f} of their time"
        raise CheckError(f"{odd[0].name} is slower than the others: {took}{dated}",
                         hint=f"mi300bench compare node:{odd[0].name} and another node, or look at {odd[0].worst}")  # fmt: skip
    if slowed:
        raise CheckError(
            f"{slowed[0].said}", hint="compare the run before with the run after: run:ID run:ID"
        )


def _parts_and_changes(parts: Sequence[Any], changes: Sequence[Dated]) -> None:
    if parts:
        rows = [(p.name, p.ratio.as_ratio, p.of, p.evidence[0]) for p in parts[:SHOWN]]
        show.table(("part that stands out", "seconds over the others", "records", "such as"), rows)
    if changes:
        dated = [
            (
                c.name,
                c.family,
                "drift" if c.is_drift else "step",
                c.ratio.as_ratio,
                c.since,
                c.run,
                c.runs,
            )
            for c in changes[:SHOWN]
        ]
        show.table(
            ("history of", "family", "change", "seconds", "since", "first run after it", "runs"),
            dated,
        )


def _apart(a: str, b: str, unshared: Apart) -> None:
    """Print what the sides do not share."""
    for name, labels in ((a, unshared.only_first), (b, unshared.only_second)):
        if labels:
            click.echo(f"on {name} alone: {len(labels)} points, {_shown(labels, 2)}")
    for name, (one, other) in unshared.differing.items():
        click.echo(f"{name} differs: {one or 'nothing'} on {a}, {other or 'nothing'} on {b}")
    if unshared.broken:
        click.echo(f"no result any more on {b}: {_shown(unshared.broken)}")
