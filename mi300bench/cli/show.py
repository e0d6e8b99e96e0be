"""Records as tables for people and as JSON for programs. Results: stdout; doubts: stderr."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from mi300bench import physics, stats
from mi300bench.measurement.measure import Measured, require_all_ok
from mi300bench.schema.codec import encode
from mi300bench.schema.doubt import Doubt
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.store.select import by_point
from mi300bench.units import ELEMENT_BYTES, Unit, format_bytes, format_quantity

if TYPE_CHECKING:  # both import numpy
    from mi300bench.fit.gemm import Score
    from mi300bench.measurement.gemm_study import GemmStudy

# A cell that starts with a number, such as "12", "1.5 GiB", "3.2%" or "1.02 (0.99 to 1.05)".
NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?(?=$|[ %])")
EMPTY = ("", "-", "unknown")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns: words to the left, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    _print_columns(columns, cells, [_are_numbers(column) for column in _columns(columns, cells)])


def right_aligned_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns that are all aligned to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    _print_columns(columns, cells, [True] * len(columns))


def _columns(names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[row[place] for row in cells] for place in range(len(names))]


def _are_numbers(column: Sequence[str]) -> bool:
    filled = [cell for cell in column if cell not in EMPTY]
    return bool(filled) and all(NUMBER.match(cell) for cell in filled)


def _print_columns(
    names: Sequence[str], cells: Sequence[Sequence[str]], to_right: Sequence[bool]
) -> None:
    widths = [
        max(len(cell) for cell in (name, *column))
        for name, column in zip(names, _columns(names, cells), strict=True)
    ]
    for row in (names, *cells):
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, to_right, strict=True)
        )
        click.echo("  ".join(aligned).rstrip())


def records_as_json(records: Iterable[Measurement]) -> None:
    """Print records as one JSON list, with the field names of the record."""
    click.echo(json.dumps([encode(record) for record in records]))


def _plus_minus(passes: Sequence[Measurement]) -> str:
    return stats.interval_of(passes).as_spread


def _ok_groups(records: Sequence[Measurement]) -> list[tuple[Measurement, ...]]:
    return list(by_point(record for record in records if record.outcome is Outcome.OK).values())


def memory_table(records: Sequence[Measurement]) -> None:
    """Print bandwidth by pattern, size and variant; a GB is 1e9 bytes."""
    rows = []
    for passes in _ok_groups(records):
        first = passes[0]
        size = int(str(first.params["bytes"]))
        rate = stats.bandwidth(first.work, stats.interval_of(passes).mid)
        rows.append(
            (
                first.probe.removeprefix("memory."),
                size,
                format_bytes(size),
                first.params.get("row_bytes", "-"),
                first.params.get("variant", "op"),
                f"{rate / 1e9:.2f}",
                _plus_minus(passes),
            )
        )
    table(("pattern", "bytes", "size", "row", "variant", "GB/s", "+-"), rows)


def gemm_table(records: Sequence[Measurement]) -> None:
    """Print products as MxNxK, where K is the reduction; a TFLOPS is 1e12 FLOP per second."""
    rows = []
    for passes in _ok_groups(records):
        p, seconds = passes[0].params, stats.interval_of(passes).mid
        rows.append(
            (
                f"{p['m']}x{p['n']}x{p['k']}",
                p["layout"],
                p["dtype"],
                p.get("cache", "cold"),
                f"{seconds * 1e6:.1f}",
                f"{stats.flop_rate(passes[0].work, seconds) / 1e12:.3f}",
                _plus_minus(passes),
            )
        )
    table(("MxNxK", "layout", "dtype", "cache", "time us", "TFLOPS", "+-"), rows)


def workload(scores: Mapping[str, "Score"]) -> None:
    """Print the rate of a model's products together, one line for each data type."""
    for dtype, score in scores.items():
        click.echo(f"# {dtype}: {_score_text(score)}")


def _score_text(score: "Score") -> str:
    return (
        f"the model's products together reach {score.together / 1e12:.3f} TFLOPS "
        f"(all FLOP over all time, forward and backward), {score.together / score.best:.0%} of the "
        f"best one's {score.best / 1e12:.3f}"
    )


def gemm_study(study: "GemmStudy") -> None:
    """Print the best shape and its ties, the rules of thumb, and the held-out error of the fit."""
    search, best = study.search, study.search.best
    ties = ", ".join(f"{p.m}x{p.n}x{p.k}" for p in search.ties) or "none"
    end = "settled" if search.is_settled else "stopped by the budget"
    click.echo(f"# {study.dtype}, layout {best.layout}; shapes are MxNxK, where K is the reduction")
    click.echo(
        f"best      {best.m}x{best.n}x{best.k}  {search.rate / 1e12:.3f} TFLOPS  "
        f"({len(search.trace)} shapes tried, {end}; ties: {ties})"
    )
    for rule in study.rules:
        click.echo(f"{rule.name:<9} {rule.sentence}")
    if study.score is not None:
        click.echo(f"workload  {_score_text(study.score)}")
    _print_published_rule(study)
    _print_fit(study)


def _print_published_rule(study: "GemmStudy") -> None:
    from mi300bench.fit import gemm_rules

    cost = study.published
    if cost is None:
        return
    doubt = " (extrapolated: some shapes are outside the measured range)"
    click.echo(
        f"published {gemm_rules.MI300X_NOTE.source}: {cost.kept} of {cost.products} products of "
        f"the model satisfy it; padding the others takes {cost.flop:.3g} times the FLOP and a "
        f"predicted {cost.seconds:.3g} times the time{doubt if cost.is_extrapolated else ''}"
    )


def _print_fit(study: "GemmStudy") -> None:
    import numpy as np

    if study.model is None:
        click.echo("fit       too few shapes were measured for a fit; give a larger --budget")
        return
    errors, nearest = study.model.errors, study.model.nearest_errors
    click.echo(
        f"fit       the error on held-out shapes is {np.median(errors):.1%} (median) and "
        f"{np.quantile(errors, 0.9):.1%} (90th percentile); with the rate of the nearest measured "
        f"shape it would be {np.median(nearest):.1%} and {np.quantile(nearest, 0.9):.1%}"
    )


def collective_table(records: Sequence[Measurement]) -> None:
    """Print collectives with the columns of rccl-tests; time is in us, bandwidth in GB/s (1e9)."""
    for op, ranks in dict.fromkeys(
        (r.probe.removeprefix("collective."), r.world.ranks) for r in records
    ):
        chosen = [r for r in records if r.probe == f"collective.{op}" and r.world.ranks == ranks]
        click.echo(f"# {op}, {ranks} ranks, {chosen[0].conditions.get('backend', 'unknown')}")
        right_aligned_table(
            ("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "+-"),
            [_collective_row(op, passes) for passes in by_point(chosen).values()],
        )


def _collective_row(op: str, passes: Sequence[Measurement]) -> tuple[object, ...]:
    redop = {"all_reduce": "sum", "reduce_scatter": "sum"}
    good = [record for record in passes if record.outcome is Outcome.OK]
    wrong = sum(record.outcome is Outcome.WRONG_ANSWER for record in passes)
    first = passes[0]
    size = int(first.work.message_bytes) or int(str(first.params["bytes"]))
    dtype = str(first.params["dtype"])
    head = (size, size // ELEMENT_BYTES[dtype], dtype, redop.get(op, "none"), -1)
    if not good:
        return (*head, "-", "-", "-", wrong, first.reason[:60])
    seconds = stats.interval_of(good).mid
    algbw = physics.algbw(size, seconds)
    busbw = physics.busbw(op, size, seconds, first.world.ranks)
    return (
        *head,
        f"{seconds * 1e6:.1f}",
        f"{algbw / 1e9:.3f}",
        f"{busbw / 1e9:.3f}",
        wrong,
        _plus_minus(good),
    )


def overlap_table(records: Sequence[Measurement]) -> None:
    """Print how many times as long products and a collective take when they overlap."""
    from mi300bench.fit.overlap import fit_overlap

    rows = []
    for passes in _ok_groups(records):
        slowdown, p = fit_overlap([passes]), passes[0].params
        rows.append(
            (
                format_bytes(int(str(p["bytes"]))),
                f"{p['m']}x{p['n']}x{p['k']}",
                p["dtype"],
                passes[0].world.ranks,
                f"{slowdown.compute:.3f}",
                f"{slowdown.collective:.3f}",
            )
        )
    table(("message", "MxNxK", "dtype", "ranks", "compute x", "collective x"), rows)


def generic_table(records: Sequence[Measurement]) -> None:
    """Print records of any probe: parameters, ranks, time and spread."""
    rows = []
    for passes in _ok_groups(records):
        parameters = " ".join(f"{name}={value}" for name, value in passes[0].params.items())
        seconds = format_quantity(stats.interval_of(passes).mid, Unit.SECOND)
        rows.append(
            (passes[0].probe, parameters, passes[0].world.ranks, seconds, _plus_minus(passes))
        )
    table(("probe", "parameters", "ranks", "time", "+-"), rows)


def doubts_once(doubts: Iterable[Doubt]) -> None:
    """Print one doubt of each kind on stderr, and how many more there are."""
    by_kind: dict[str, list[Doubt]] = {}
    for doubt in doubts:
        by_kind.setdefault(doubt.kind, []).append(doubt)
    for same in by_kind.values():
        others = f" (and {len(same) - 1} more doubts of this kind)" if len(same) > 1 else ""
        click.echo(f"doubt: {same[0]}{others}", err=True)


def where(result: Measured) -> None:
    """Print on stderr how many records there are, and the file that has them."""
    click.echo(f"{len(result.records)} records in {result.path}", err=True)


def measured(
    result: Measured | None,
    *,
    as_json: bool,
    show: Callable[[Sequence[Measurement]], None],
) -> None:
    """Print records by `show`, their doubts and their file; raise `ProbeError` if a point failed.

    A rank that an external launcher started, other than rank 0, has no result and prints nothing.
    """
    if result is None:
        return
    if as_json:
        records_as_json(result.records)
    else:
        if any(record.outcome is Outcome.OK for record in result.records):
            show(result.records)
        doubts_once(doubt for record in result.records for doubt in record.doubts)
    where(result)
    require_all_ok(result)
