"""Charts as SVG text. Axes and text take the page's own colour, so that light, dark and print all work.

matplotlib draws with a marker colour, which is then replaced by ``currentColor``. Text stays text, is never
parsed as mathematics, and nothing in the output depends on the clock.
"""

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

INK = "#010203"
COLOURS = ("#2f7ed8", "#d9822b", "#3fa36b", "#b55bb0", "#c23b3b", "#7a7a7a")
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mi300bench",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 10.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.2,
    "grid.color": INK,
    "legend.frameon": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points of one series; `is_fit` draws a line without points; `low` and `high` are bounds of each point."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    is_fit: bool = False
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


LONGEST_LABEL = 48
# A map of more rows or columns than this has no room for its values.
MOST_WRITTEN = 16


def short(label: str) -> str:
    """Return a label that leaves room for the chart."""
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _draw(size: tuple[float, float], alt: str, paint: Any) -> str:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    with matplotlib.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        paint(figure, axes)
        out = io.StringIO()
        figure.savefig(
            out, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
        plt.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    label = alt.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def curves(
    lines: Sequence[Line],
    *,
    x_label: str,
    y_label: str,
    alt: str,
    marks: Sequence[tuple[float, str]] = (),
    ranges: Sequence[tuple[float, float, float]] = (),
    log_y: bool = True,
) -> str:
    """Return series over a logarithmic size axis, with vertical marks and published ranges (at, low, high)."""

    def paint(_figure: Any, axes: Any) -> None:
        for index, line in enumerate(lines):
            colour = COLOURS[index % len(COLOURS)]
            if line.is_fit:
                axes.plot(
                    line.x,
                    line.y,
                    "--",
                    color=COLOURS[(index - 1) % len(COLOURS)],
                    label=short(line.label),
                    linewidth=1.2,
                )
                continue
            axes.plot(
                line.x,
                line.y,
                "o-",
                color=colour,
                label=short(line.label),
                markersize=4,
                linewidth=1.5,
            )
            if line.low:
                axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.2, linewidth=0)
        for place, (at, low, high) in enumerate(ranges):
            label = "published" if place == 0 else None
            axes.plot(
                [at, at],
                [low, high],
                color=INK,
                linewidth=6,
                alpha=0.35,
                solid_capstyle="butt",
                label=label,
            )
        for at, text in marks:
            axes.axvline(at, color=INK, linewidth=0.8, linestyle=":")
            axes.annotate(
                text,
                (at, 1.0),
                xycoords=("data", "axes fraction"),
                fontsize=8,
                rotation=90,
                va="top",
                ha="right",
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(_binary)
        if log_y:
            axes.set_yscale("log")
            _plain(axes.yaxis)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.legend(fontsize=9)

    return _draw((7.2, 3.6), alt, paint)


def losses(lines: Sequence[Line], *, alt: str) -> str:
    """Return loss by step, a line a run."""

    def paint(_figure: Any, axes: Any) -> None:
        for line, colour in zip(lines, itertools.cycle(COLOURS), strict=False):
            axes.plot(line.x, line.y, color=colour, linewidth=1.2, label=short(line.label))
        axes.set_xlabel("step")
        axes.set_ylabel("loss")
        axes.legend(fontsize=8)

    return _draw((7.5, 3.2), alt, paint)


def _plain(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers, those between the decades too where it has few decades."""
    axis.set_major_formatter(lambda value, _position: f"{value:g}")
    axis.set_minor_formatter(
        lambda value, _position: f"{value:g}" if f"{value:e}"[0] in "25" else ""
    )


def _binary(size: float, _position: int) -> str:
    for scale, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= scale:
            return f"{size / scale:g} {name}"
    return f"{size:g} B"


def bars(labels: Sequence[str], values: Sequence[float], *, x_label: str, alt: str) -> str:
    """Return horizontal bars, the first on top."""

    def paint(_figure: Any, axes: Any) -> None:
        axes.barh(range(len(values)), values, color=COLOURS[0])
        axes.set_yticks(range(len(values)), [short(label) for label in labels])
        axes.invert_yaxis()
        axes.set_xlabel(x_label)

    return _draw((7.2, 0.6 + 0.24 * len(values)), alt, paint)


def stacked(
    labels: Sequence[str],
    parts: Sequence[tuple[str, Sequence[float]]],
    *,
    limit: float,
    x_label: str,
    alt: str,
) -> str:
    """Return horizontal bars of several parts each, the first on top, with a limit as a vertical mark."""

    def paint(_figure: Any, axes: Any) -> None:
        left = [0.0] * len(labels)
        for (name, values), colour in zip(parts, COLOURS, strict=False):
            axes.barh(range(len(labels)), values, left=left, color=colour, label=name)
            left = [a + b for a, b in zip(left, values, strict=True)]
        axes.axvline(limit, color=INK, linewidth=1.2, linestyle=":")
        axes.annotate(
            " limit", (limit, 0.0), xycoords=("data", "axes fraction"), fontsize=8, va="bottom"
        )
        axes.set_yticks(range(len(labels)), [short(label) for label in labels])
        axes.invert_yaxis()
        axes.set_xlabel(x_label)
        axes.legend(fontsize=8, ncols=len(parts), loc="lower center", bbox_to_anchor=(0.5, 1.0))

    return _draw((7.2, 1.2 + 0.28 * len(labels)), alt, paint)


def heat(
    table: Sequence[Sequence[float | None]], *, rows: Sequence[str], columns: Sequence[str], label: str, alt: str,
    x_label: str = "", y_label: str = "", middle: float | None = None, is_written: bool = False,
    marks: Sequence[tuple[float, float, str]] = (),
) -> str:  # fmt: skip
    """Return a map of values by row and column, None left empty.

    `middle` is where two colours meet; `marks` are (column, row, text); `is_written`: with values in the cells, where they fit.
    """

    def paint(figure: Any, axes: Any) -> None:
        import numpy as np

        values = np.array(
            [[float("nan") if v is None else v for v in row] for row in table], dtype=float
        )
        known = values[~np.isnan(values)]
        reach = max(abs(known - middle).max(), 1e-9) if middle is not None and known.size else 0.0
        bounds = {"vmin": middle - reach, "vmax": middle + reach} if middle is not None else {}
        drawn = axes.pcolormesh(
            values, cmap="viridis" if middle is None else "coolwarm", edgecolors="none", **bounds
        )
        axes.grid(False)
        every_x, every_y = max(1, len(columns) // 12), max(1, len(rows) // 24)
        axes.set_xticks(
            [i + 0.5 for i in range(0, len(columns), every_x)], list(columns)[::every_x]
        )
        axes.set_yticks(
            [i + 0.5 for i in range(0, len(rows), every_y)],
            [short(r) for r in list(rows)[::every_y]],
            fontsize=8,
        )
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        if not marks:
            axes.invert_yaxis()  # the first row on top, as in a table
        if is_written and max(values.shape) <= MOST_WRITTEN:
            for (y, x), value in np.ndenumerate(values):
                if not np.isnan(value):
                    shade = (value - known.min()) / max(float(np.ptp(known)), 1e-9)
                    ink = "black" if shade > 0.5 else "white"
                    axes.text(
                        x + 0.5,
                        y + 0.5,
                        f"{value:.3g}",
                        ha="center",
                        va="center",
                        fontsize=8,
                        color=ink,
                    )
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

    return _draw((7.2, 1.4 + 0.24 * min(max(len(rows), 4), 24)), alt, paint)


def roofline(
    points: Sequence[tuple[str, float, float]],
    *,
    peaks: Sequence[tuple[str, float]],
    bandwidth: float,
    alt: str,
) -> str:
    """Return rates over intensity (label, FLOP a byte, FLOP a second) under a bandwidth and peaks (label, FLOP a second)."""

    def paint(_figure: Any, axes: Any) -> None:
        xs = [x for _, x, _ in points]
        least, most = min(xs) / 4, max(*xs, max(rate for _, rate in peaks) / bandwidth) * 2
        for place, (label, rate) in enumerate(peaks):
            ridge = rate / bandwidth
            axes.plot([least, ridge, most], [least * bandwidth / 1e12, rate / 1e12, rate / 1e12], "--", linewidth=1.2,
                      color=COLOURS[(place + 2) % len(COLOURS)], label=short(label))  # fmt: skip
        groups: dict[str, list[tuple[float, float]]] = {}
        for label, x, rate in points:
            groups.setdefault(label, []).append((x, rate / 1e12))
        for (label, found), colour in zip(groups.items(), itertools.cycle(COLOURS), strict=False):
            axes.plot(
                [x for x, _ in found],
                [y for _, y in found],
                "o",
                markersize=4,
                color=colour,
                label=short(label),
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("FLOP a byte that has to move")
        axes.set_ylabel("TFLOPS")
        _plain(axes.yaxis)
        _plain(axes.xaxis)
        axes.legend(fontsize=8)

    return _draw((7.2, 3.6), alt, paint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """One packing on the time axis: bucket sizes in MiB with start and end in seconds."""

    label: str
    spans: tuple[tuple[float, float, float], ...]


def timeline(
    ready: Sequence[tuple[float, float]], backward_s: float, packings: Sequence[Lanes], *, alt: str
) -> str:
    """Return gradients (moment, cumulative MiB) above, and below them the buckets of each packing on the wire."""

    def paint(figure: Any, axes: Any) -> None:
        axes.remove()
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 0.6 + len(packings)])
        above.step([t for t, _ in ready], [mib for _, mib in ready], where="post", color=COLOURS[0])
        above.set_ylabel("ready, MiB")
        for row, packing in enumerate(packings):
            for index, (size, start, end) in enumerate(packing.spans):
                shade = 0.85 if index % 2 == 0 else 0.5
                below.barh(
                    row,
                    end - start,
                    left=start,
                    height=0.7,
                    color=COLOURS[row % len(COLOURS)],
                    alpha=shade,
                )
                if end - start > 0.06 * max(e for p in packings for _, _, e in p.spans):
                    below.text(
                        (start + end) / 2, row, f"{size:.0f}", ha="center", va="center", fontsize=8
                    )
        below.set_yticks(range(len(packings)), [short(packing.label) for packing in packings])
        below.invert_yaxis()
        below.set_xlabel("seconds after backward began (numbers: MiB of a bucket)")
        for part in (above, below):
            part.axvline(backward_s, color=INK, linestyle=":", linewidth=1)
        above.annotate(
            "backward ends ",
            (backward_s, 0.95),
            xycoords=("data", "axes fraction"),
            fontsize=8,
            va="top",
            ha="right",
        )

    return _draw((7.2, 2.6 + 0.5 * len(packings)), alt, paint)


def against(points: Sequence[tuple[str, float, float, float, float]], *, alt: str) -> str:
    """Return predicted against measured seconds: (label, predicted, measured, low, high) each, with the diagonal."""

    def paint(_figure: Any, axes: Any) -> None:
        least = min(min(p[1], p[3]) for p in points) * 0.95
        most = max(max(p[1], p[4]) for p in points) * 1.05
        axes.plot([least, most], [least, most], color=INK, linewidth=0.8, linestyle=":")
        for index, (label, predicted, measured, low, high) in enumerate(points):
            error = [[measured - low], [high - measured]]
            axes.errorbar(
                [predicted],
                [measured],
                yerr=error,
                fmt="o",
                color=COLOURS[index % len(COLOURS)],
                label=short(label),
            )
        axes.set_xlim(least, most)
        axes.set_ylim(min(least, min(p[3] for p in points)), max(most, max(p[4] for p in points)))
        axes.set_xlabel("predicted seconds a step")
        axes.set_ylabel("measured")
        axes.legend(fontsize=8)

    return _draw((5.2, 3.8), alt, paint)
