"""Matrix products: rates by shape, what a fit of them predicts, and a map of all shapes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mi300bench import stats
from mi300bench.fit.gemm import FEWEST_SHAPES, fit_gemm, workload_score
from mi300bench.schema.model import Gemm, Interval
from mi300bench.schema.record import Measurement, Origin
from mi300bench.store.newest import newest_passes

from mi300bench_reports import as_text
from mi300bench_reports.charts import bars, heat
from mi300bench_reports.elements import Section, Table
from mi300bench_reports.peaks import published_peak, share_of_peak

# A fit takes at most this many shapes: its time grows with their cube.
MOST_FITTED = 100
MOST_BARS, MOST_ROWS = 24, 600
# A map needs at least this many shapes.
FEWEST_MAPPED = 12
# Above this error, a fit is of no use for predictions.
USEFUL_ERROR = 0.3
COLUMNS = ("shape", "layout", "type", "ranks", "cache", "rate", "share of best", "+-", "record")


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedShape:
    """One shape with its rate in FLOP/s. `dtype` and `ranks` are what rates are compared within."""

    passes: tuple[Measurement, ...]
    seconds: Interval
    rate: float
    dtype: str
    ranks: int

    @property
    def shape(self) -> str:
        """Return MxNxK."""
        params = self.passes[0].params
        return f"{params['m']}x{params['n']}x{params['k']}"


def products(
    records: Sequence[Measurement], gemms: Sequence[Gemm] = (), *, has_fit: bool = True
) -> Section | None:
    """Return the rates by shape, fastest first, and what the products `gemms` reach together.

    `has_fit` adds how well a fit predicts shapes that it has not seen, which takes seconds.
    """
    measured = _rated(newest_passes(r for r in records if r.probe == "gemm"))
    if not measured:
        return None
    rated = sorted(measured, key=lambda row: -row.rate)
    best: dict[tuple[str, int], float] = {}
    for row in rated:
        best.setdefault((row.dtype, row.ranks), row.rate)
    sentences = []
    for (dtype, ranks), rate in best.items():
        peak = published_peak(measured[0].passes[0], dtype)
        busy = "" if ranks == 1 else f" on each of {ranks} ranks at once"
        alike = [row.passes for row in measured if (row.dtype, row.ranks) == (dtype, ranks)]
        sentences.append(
            f"{dtype}{busy}: the best shape reaches {as_text.flop_rate(rate)}, "
            f"{share_of_peak(rate, peak)}."
            + _together(alike, gemms, rate)
            + (_fit_error(alike) if has_fit else "")
        )
    sentences.append(
        "Shapes are MxNxK, with K the reduction. The share is of the best rate of the same type "
        "and number of ranks."
    )
    shown = rated[:MOST_BARS]
    return Section(
        anchor="products",
        title="Matrix products",
        sentences=tuple(sentences),
        chart=bars.bars(
            [f"{row.shape} {row.passes[0].params['layout']} {row.dtype}" for row in shown],
            [row.rate / 1e12 for row in shown],
            x_label="TFLOPS (1e12 FLOP/s)",
            alt="Matrix product rates by shape",
        ),
        table=_table(rated[:MOST_ROWS], best),
    )


def _rated(points: Sequence[tuple[Measurement, ...]]) -> list[RatedShape]:
    rated = []
    for passes in points:
        seconds = stats.interval_of(passes)
        rated.append(
            RatedShape(
                passes=passes,
                seconds=seconds,
                rate=stats.flop_rate(passes[0].work, seconds.mid),
                dtype=str(passes[0].params.get("dtype")),
                ranks=passes[0].world.ranks,
            )
        )
    return rated


def _table(rated: Sequence[RatedShape], best: dict[tuple[str, int], float]) -> Table:
    rows, keys = [], []
    for row in rated:
        first = row.passes[0]
        layout = str(first.params["layout"])
        unstated = "cold" if first.origin is Origin.MEASURED else "unknown"
        cache = str(first.params.get("cache", unstated))
        share = row.rate / best[row.dtype, row.ranks]
        rows.append(
            (
                row.shape,
                layout,
                row.dtype,
                str(row.ranks),
                cache,
                as_text.flop_rate(row.rate),
                f"{share:.0%}",
                row.seconds.as_spread,
                first.id,
            )
        )
        spread = row.seconds.high / row.seconds.mid
        keys.append(
            (
                first.work.flop,
                layout,
                row.dtype,
                row.ranks,
                cache,
                row.rate,
                share,
                spread,
                first.id,
            )
        )
    return Table(columns=COLUMNS, rows=tuple(rows), keys=tuple(keys))


def _together(points: Sequence[Sequence[Measurement]], gemms: Sequence[Gemm], best: float) -> str:
    """Return what the tuned model's products reach together, where each was measured."""
    score = workload_score(points, gemms) if gemms else None
    if score is None:
        return ""
    return (
        " The tuned model's products, at its default shape, together reach "
        f"{as_text.flop_rate(score.together)}, {score.together / best:.0%} of the best rate."
    )


def _fit_error(points: Sequence[Sequence[Measurement]]) -> str:
    """Return the error of a fit for held-out shapes; empty where the shapes are too few."""
    shapes = {tuple(passes[0].params[name] for name in ("m", "n", "k")) for passes in points}
    if len(shapes) < FEWEST_SHAPES:
        return ""
    model = fit_gemm(list(points)[:: max(1, len(points) // MOST_FITTED)])
    error, nearest = stats.typical(model.errors), stats.typical(model.nearest_errors)
    if error > USEFUL_ERROR:
        return (
            f" A fit is off by {error:.0%} (median) for held-out shapes: these shapes are too few "
            "to predict others. Measure more with: mi300bench gemm-sweep."
        )
    return (
        f" A fit is off by {error:.1%} (median) for held-out shapes; "
        f"the rate of the nearest measured shape is off by {nearest:.1%}."
    )


def product_map(records: Sequence[Measurement], gemms: Sequence[Gemm]) -> Section | None:
    """Return the median rate by K and by sqrt(M x N), of the type and ranks with most shapes."""
    groups: dict[tuple[str, int], list[RatedShape]] = {}
    for row in _rated(newest_passes(r for r in records if r.probe in ("gemm", "jax.gemm"))):
        groups.setdefault((row.dtype, row.ranks), []).append(row)
    (dtype, ranks), rated = max(groups.items(), key=lambda kv: len(kv[1]), default=(("", 0), []))
    if len(rated) < FEWEST_MAPPED:
        return None
    cells: dict[tuple[int, int], list[float]] = {}
    for row in rated:
        m, n, k = (float(str(row.passes[0].params[name])) for name in ("m", "n", "k"))
        cell = round(_half_doublings(math.sqrt(m * n))), round(_half_doublings(k))
        cells.setdefault(cell, []).append(row.rate / 1e12)
    ys, xs = {y for y, _ in cells}, {x for _, x in cells}
    rows, columns = range(min(ys), max(ys) + 1), range(min(xs), max(xs) + 1)
    marks = _marks(gemms, rows, columns)
    busy = f" on each of {ranks} ranks at once" if ranks > 1 else ""
    return Section(
        anchor="products-map",
        title="Map of matrix products",
        sentences=(
            f"{dtype}{busy}: median TFLOPS of {len(rated)} shapes, by the reduction K and by the "
            "size of the result, the square root of M x N."
            + (" Circles are the tuned model's own products." if marks else ""),
        ),
        chart=heat.heat(
            [
                [stats.typical(cells[y, x]) if (y, x) in cells else None for x in columns]
                for y in rows
            ],
            rows=[_size(y) for y in rows],
            columns=[_size(x) for x in columns],
            label="TFLOPS",
            x_label="K",
            y_label="square root of M x N",
            marks=marks,
            alt="Rates of matrix products by K and size of the result",
        ),
    )


def _half_doublings(value: float) -> float:
    """Return the place of a size on the map: two cells for each doubling."""
    return 2 * math.log2(value)


def _size(cell: int) -> str:
    return f"{2 ** (cell / 2):.0f}"


def _marks(gemms: Sequence[Gemm], rows: range, columns: range) -> list[tuple[float, float, str]]:
    """Return the places of a model's products that lie on the map."""
    marks = []
    for gemm in gemms:
        x = _half_doublings(gemm.k) - columns[0] + 0.5
        y = _half_doublings(math.sqrt(gemm.m * gemm.n)) - rows[0] + 0.5
        if 0 <= x <= len(columns) and 0 <= y <= len(rows):
            marks.append((x, y, gemm.name))
    return marks
