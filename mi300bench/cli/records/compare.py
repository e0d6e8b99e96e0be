"""mi300bench compare."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mi300bench.api.comparing import SeveralSides, TwoSides, compare_sides, shortened
from mi300bench.cli import show
from mi300bench.cli.options import json_option, say, store_option
from mi300bench.comparison.points import Compared
from mi300bench.comparison.sides import ATTRIBUTES, Apart, Dated, Part
from mi300bench.stats import SMALLEST_EFFECT, Verdict

SHOWN = 20


@click.command("compare")
@click.argument("sides", nargs=-1, metavar="[A B ...]")
@click.option(
    "--by",
    type=click.Choice(list(ATTRIBUTES)),
    help="Compare the parts of the store, split by this.",
)
@click.option(
    "--effect",
    type=float,
    default=100 * SMALLEST_EFFECT,
    show_default=True,
    help="Smallest change that counts, in percent.",
)
@click.option(
    "--all", "everything", is_flag=True, help="Show all points, not only those that changed."
)
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
    """Find the point, node, GPU or link that got slower, by how much, and since when.

    A side is the folder of a store or a node, node:NAME, or run:ID. Two sides are compared point by
    point; folders of several nodes, node by node. Of three or more sides, each is compared with all
    others. --by node compares the nodes of the store.

    The exit code is 6 if B is slower than A or lost a result. With --by, or with several sides, it
    is 6 if any side is slower than the others, or became slower over time.
    """
    result = compare_sides(sides, by=by, store=store, smallest=effect / 100, warn=say)
    if as_json:
        click.echo(json.dumps(_document(result)))
    elif isinstance(result, TwoSides):
        _print_two(result, everything=everything)
    else:
        _print_several(result)
    result.require_no_slower()


def _document(result: TwoSides | SeveralSides) -> dict[str, Any]:
    """Return a comparison as a JSON document."""
    shared = {
        "parts": [asdict(part) for part in result.parts],
        "changes": [asdict(change) for change in result.changes],
    }
    if isinstance(result, SeveralSides):
        return {"sides": [asdict(row) for row in result.rows]} | shared
    return {
        "points": [_with_verdict(row) for row in result.points],
        "families": [_with_verdict(row) for row in result.probes],
        "apart": asdict(result.apart),
    } | shared


def _with_verdict(row: Any) -> dict[str, Any]:
    return asdict(row) | {"verdict": str(row.verdict)}


def _print_two(result: TwoSides, *, everything: bool) -> None:
    rows = result.points
    counts = {verdict: sum(row.verdict is verdict for row in rows) for verdict in Verdict}
    click.echo(
        f"seconds of {result.second} over those of {result.first}; {len(rows)} points in common"
    )
    show.table([str(verdict) for verdict in counts], [list(counts.values())])
    if result.probes:
        show.table(
            ("probe", "points", "ratio, median", "verdict"),
            [(r.family, r.points, r.ratio.as_ratio, r.verdict) for r in result.probes],
        )
    if any(row.shared != 1 for row in rows):
        click.echo(
            "drift common to all points of a probe was subtracted, "
            "unless the probe itself has changed"
        )
    changed = [r for r in rows if everything or r.verdict in (Verdict.SLOWER, Verdict.FASTER)]
    if changed:
        show.table(
            ("verdict", "ratio", "point", "records"),
            [_row(row) for row in changed[: None if everything else SHOWN]],
        )
    _print_parts_and_changes(result.parts, result.changes)
    _print_apart(result.first, result.second, result.apart)


def _row(row: Compared) -> tuple[object, ...]:
    return row.verdict, row.ratio.as_ratio, row.label, f"{row.first[0]} {row.second[0]}"


def _print_several(result: SeveralSides) -> None:
    click.echo(f"{len(result.names)} sides; ratios are seconds over those of the others")
    show.table(
        ("odd", "side", "probe", "ratio", "points", "worst point", "its ratio"),
        [
            (
                "yes" if row.is_odd else "",
                row.name,
                row.family,
                row.ratio.as_ratio,
                row.points,
                row.worst,
                f"{row.worst_ratio:.3f}",
            )
            for row in result.rows[:SHOWN]
        ],
    )
    _print_parts_and_changes(result.parts, result.changes)


def _print_parts_and_changes(parts: Sequence[Part], changes: Sequence[Dated]) -> None:
    if parts:
        show.table(
            ("part that stands out", "ratio to the others", "records", "example"),
            [(p.name, p.ratio.as_ratio, p.of, p.evidence[0]) for p in parts[:SHOWN]],
        )
    if changes:
        show.table(
            ("history of", "probe", "change", "ratio", "since", "first run after it", "runs"),
            [
                (
                    change.name,
                    change.family,
                    "drift" if change.is_drift else "step",
                    change.ratio.as_ratio,
                    change.since,
                    change.run,
                    change.runs,
                )
                for change in changes[:SHOWN]
            ],
        )


def _print_apart(a: str, b: str, apart: Apart) -> None:
    """Print the points and conditions that the sides do not have in common."""
    for name, labels in ((a, apart.only_first), (b, apart.only_second)):
        if labels:
            click.echo(f"only on {name}: {len(labels)} points: {shortened(labels)}")
    for name, (one, other) in apart.differing.items():
        click.echo(f"{name} differs: {one or 'nothing'} on {a}, {other or 'nothing'} on {b}")
    if apart.broken:
        click.echo(f"no result any more on {b}: {shortened(apart.broken)}")
