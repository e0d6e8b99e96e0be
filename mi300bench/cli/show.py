"""Records as tables for people and as JSON for programs. Data on stdout."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click

from mi300bench import physics, stats
from mi300bench.measurement.measure import Measured, require_all_ok
from mi300bench.schema.codec import encode
from mi300bench.schema.doubt import Doubt
from mi300bench.schema.model import Gemm
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.store.select import by_point
from mi300bench.units import ELEMENT_BYTES, Unit, format_bytes, format_quantity


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns: words left, numbers right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(name), *(len(row[i]) for row in cells), 0) for i, name in enumerate(columns)]
    click.echo("  ".join(name.rjust(width) for name, width in zip(columns, widths, strict=True)))
    for row in cells:
        click.echo("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def records_as_json(records: Iterable[Measurement]) -> None:
    """Print records as one JSON list, with the field names of the record."""
    click.echo(json.dumps([encode(record) for record in records]))


def _plus_minus(passes: Sequence[Measurement]) -> str:
    return stats.interval_of(passes).as_spread


def _ok_groups(records: Sequence[Measurement]) -> list[tuple[Measurement, ...]]:
    return list(by_point(record for record in records if record.outcome is Outcome.OK).values())


def memory_table(records: Sequence[Measurement]) -> None:
    """Print bandwidth by pattern, size and variant; GB are 1e9 bytes."""
    rows = []
    for passes in _ok_groups(records):
        first, seconds = passes[0], stats.interval_of(passes).mid
        rate = stats.bandwidth(first.work, seconds)
        size = int(str(first.params["bytes"]))
        row_bytes = first.params.get("row_bytes", "-")
        variant = first.params.get("variant", "op")
        pattern = first.probe.removeprefix("memory.")
        cells = (
            pattern,
            size,
            format_bytes(size),
            row_bytes,
            variant,
            f"{rate / 1e9:.2f}",
            _plus_minus(passes),
        )
        rows.append(cells)
    table(("pattern", "bytes", "size", "row", "variant", "GB/s", "+-"), rows)


def gemm_table(records: Sequence[Measurement]) -> None:
    """Print products as M x N x K with K the reduction; TFLOPS are 1e12."""
    rows = []
    for passes in _ok_groups(records):
        p, seconds = passes[0].params, stats.interval_of(passes).mid
        rate = stats.flop_rate(passes[0].work, seconds)
        rows.append(
            (f"{p['m']}x{p['n']}x{p['k']}", p["layout"], p["dtype"], p.get("cache", "cold"), f"{seconds * 1e6:.1f}",
             f"{rate / 1e12:.3f}", _plus_minus(passes))
        )  # fmt: skip
    table(("MxNxK", "layout", "dtype", "cache", "time us", "TFLOPS", "+-"), rows)


def workload(records: Sequence[Measurement], gemms: Sequence[Gemm]) -> None:
    """Print what a model's products reach together, FLOP-weighted, beside the best single one; a type a line."""
    from mi300bench.fit.gemm import workload_score

    for kind in dict.fromkeys(str(record.params["dtype"]) for record in records):
        score = workload_score(_ok_groups([r for r in records if r.params["dtype"] == kind]), gemms)
        if score is None:
            continue
        click.echo(f"# {kind}: {_score_text(score)}")


def _score_text(score: Any) -> str:
    return (
        f"all products of the model together {score.together / 1e12:.3f} TFLOPS (FLOP over time, forward and backward), "
        f"the best of them alone {score.best / 1e12:.3f}: {score.together / score.best:.0%}"
    )


def gemm_study(study: Any) -> None:
    """Print what a search within a budget found: the best shape and its ties, rules of thumb, how well the fit predicts."""
    import numpy as np

    from mi300bench.fit import gemm_rules

    search, best = study.search, study.search.best
    ties = ", ".join(f"{p.m}x{p.n}x{p.k}" for p in search.ties) or "none"
    said = "settled" if search.is_settled else "time was up"
    click.echo(f"# {study.dtype}, layout {best.layout}; shapes are MxNxK with K the reduction")
    click.echo(
        f"best      {best.m}x{best.n}x{best.k}  {search.rate / 1e12:.3f} TFLOPS  ({len(search.trace)} tries, {said}; ties: {ties})"
    )
    for rule in study.rules:
        click.echo(f"{rule.name:<9} {rule.sentence}")
    if study.score is not None:
        click.echo(f"workload  {_score_text(study.score)}")
    if study.published is not None:
        cost = study.published
        beyond = "; beyond the measured range, so a guess" if cost.is_extrapolated else ""
        click.echo(
            f"published {gemm_rules.MI300X_NOTE.source}: {cost.kept} of {cost.products} products of the model fulfil it; padding the "
            f"others would take {cost.flop:.3g} times the FLOP and a predicted {cost.seconds:.3g} times the time{beyond}"
        )
    if study.model is None:
        click.echo("fit       too few shapes were measured for one; a larger --budget")
        return
    errors, nearest = study.model.errors, study.model.nearest_errors
    click.echo(
        f"fit       shapes left out are predicted to {np.median(errors):.1%} (median), {np.quantile(errors, 0.9):.1%} (9 in 10); "
        f"the nearest measured shape's rate would be off by {np.median(nearest):.1%}, {np.quantile(nearest, 0.9):.1%}"
    )


def collective_table(records: Sequence[Measurement]) -> None:
    """Print collectives with the columns of rccl-tests; time in us, bandwidths in GB/s (1e9)."""
    redop = {"all_reduce": "sum", "reduce_scatter": "sum"}
    for op, ranks in dict.fromkeys(
        (r.probe.removeprefix("collective."), r.world.ranks) for r in records
    ):
        chosen = [r for r in records if r.probe == f"collective.{op}" and r.world.ranks == ranks]
        click.echo(f"# {op}, {ranks} ranks, {chosen[0].conditions.get('backend', 'unknown')}")
        rows: list[tuple[object, ...]] = []
        for passes in by_point(chosen).values():
            good = [record for record in passes if record.outcome is Outcome.OK]
            wrong = sum(record.outcome is Outcome.WRONG_ANSWER for record in passes)
            size = int(passes[0].work.message_bytes) or int(str(passes[0].params["bytes"]))
            kind = str(passes[0].params["dtype"])
            head = (size, size // ELEMENT_BYTES[kind], kind, redop.get(op, "none"), -1)
            if not good:
                rows.append((*head, "-", "-", "-", wrong, passes[0].reason[:60]))
                continue
            seconds = stats.interval_of(good).mid
            algbw, busbw = physics.algbw(size, seconds), physics.busbw(op, size, seconds, ranks)
            rows.append(
                (
                    *head,
                    f"{seconds * 1e6:.1f}",
                    f"{algbw / 1e9:.3f}",
                    f"{busbw / 1e9:.3f}",
                    wrong,
                    _plus_minus(good),
                )
            )
        table(
            ("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "+-"),
            rows,
        )


def overlap_table(records: Sequence[Measurement]) -> None:
    """Print how much a collective and products slow each other."""
    from mi300bench.fit.overlap import fit_overlap

    rows = []
    for passes in _ok_groups(records):
        fitted, p = fit_overlap([passes]), passes[0].params
        rows.append(
            (format_bytes(int(str(p["bytes"]))), f"{p['m']}x{p['n']}x{p['k']}", p["dtype"], passes[0].world.ranks,
             f"{fitted.compute:.3f}", f"{fitted.collective:.3f}")
        )  # fmt: skip
    table(("message", "MxNxK", "dtype", "ranks", "compute x", "collective x"), rows)


def generic_table(records: Sequence[Measurement]) -> None:
    """Print any records: what, how long, how sure."""
    rows = []
    for passes in _ok_groups(records):
        said = " ".join(f"{name}={value}" for name, value in passes[0].params.items())
        seconds = format_quantity(stats.interval_of(passes).mid, Unit.SECOND)
        rows.append((passes[0].probe, said, passes[0].world.ranks, seconds, _plus_minus(passes)))
    table(("probe", "parameters", "ranks", "time", "+-"), rows)


def doubts_once(doubts: Iterable[Doubt]) -> None:
    """Print one doubt of each kind on stderr, and how many measurements share it."""
    kinds: dict[str, list[Doubt]] = {}
    for doubt in doubts:
        kinds.setdefault(doubt.kind, []).append(doubt)
    for same in kinds.values():
        more = f" (so too, or alike, in {len(same) - 1} more)" if len(same) > 1 else ""
        click.echo(f"doubt: {same[0]}{more}", err=True)


def measured(result: Measured, *, as_json: bool, show: Any) -> None:
    """Print what was measured, its doubts once each, where it is; raise where points failed."""
    if as_json:
        records_as_json(result.records)
    else:
        if any(record.outcome is Outcome.OK for record in result.records):
            show(result.records)
        doubts_once(doubt for record in result.records for doubt in record.doubts)
    click.echo(f"{len(result.records)} records in {result.path}", err=True)
    require_all_ok(result)
