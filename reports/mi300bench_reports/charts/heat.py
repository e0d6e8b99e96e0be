"""Maps of values by row and column."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mi300bench_reports.charts.svg import COLOURS, INK, draw, short

# A map of more rows or columns than this has no room for its values.
MOST_WRITTEN = 16
# At most this many ticks fit on an axis.
MOST_COLUMN_TICKS, MOST_ROW_TICKS = 12, 24


def heat(
    table: Sequence[Sequence[float | None]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    label: str,
    alt: str,
    x_label: str = "",
    y_label: str = "",
    middle: float | None = None,
    has_values: bool = False,
    marks: Sequence[tuple[float, float, str]] = (),
) -> str:
    """Return a map of `table`, with None left empty; `label` names the colour bar.

    Two colours meet at `middle`. `marks` are circles at (column, row, text). `has_values` writes
    the values into the cells of a small map.
    """

    def paint(figure: Any, axes: Any) -> None:
        values = np.array(
            [[float("nan") if v is None else v for v in row] for row in table], dtype=float
        )
        drawn = axes.pcolormesh(values, edgecolors="none", **_colours(values, middle))
        axes.grid(False)
        _label_axes(axes, rows, columns)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        if not marks:
            axes.invert_yaxis()  # the first row on top, as in a table
        if has_values and max(values.shape) <= MOST_WRITTEN:
            _write_values(axes, values)
        for x, y, text in marks:
            axes.plot(
                [x],
                [y],
                "o",
                markersize=9,
                markerfacecolor="none",
                markeredgecolor=COLOURS[4],
                markeredgewidth=1.6,
            )
            axes.annotate(text, (x, y), xytext=(6, 4), textcoords="offset points", fontsize=8)
        bar = figure.colorbar(drawn, ax=axes, label=label)
        bar.outline.set_edgecolor(INK)
        bar.ax.tick_params(color=INK)

    return draw((7.2, 1.4 + 0.24 * min(max(len(rows), 4), MOST_ROW_TICKS)), alt, paint)


def _colours(values: Any, middle: float | None) -> dict[str, Any]:
    """Return the colour map, and its bounds where two colours meet at `middle`."""
    if middle is None:
        return {"cmap": "viridis"}
    known = values[~np.isnan(values)]
    reach = max(abs(known - middle).max(), 1e-9) if known.size else 0.0
    return {"cmap": "coolwarm", "vmin": middle - reach, "vmax": middle + reach}


def _label_axes(axes: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    x_step = max(1, len(columns) // MOST_COLUMN_TICKS)
    y_step = max(1, len(rows) // MOST_ROW_TICKS)
    axes.set_xticks([i + 0.5 for i in range(0, len(columns), x_step)], list(columns)[::x_step])
    axes.set_yticks(
        [i + 0.5 for i in range(0, len(rows), y_step)],
        [short(row) for row in list(rows)[::y_step]],
        fontsize=8,
    )


def _write_values(axes: Any, values: Any) -> None:
    known = values[~np.isnan(values)]
    for (y, x), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        shade = (value - known.min()) / max(float(np.ptp(known)), 1e-9)
        axes.text(
            x + 0.5,
            y + 0.5,
            f"{value:.3g}",
            ha="center",
            va="center",
            fontsize=8,
            color="black" if shade > 0.5 else "white",
        )
