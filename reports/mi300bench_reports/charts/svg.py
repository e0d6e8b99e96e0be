"""From matplotlib axes to SVG text that takes the colours of the page.

Axes and text are drawn in a marker colour, which is then replaced by ``currentColor``: light, dark
and print all work. Text stays text, is never parsed as mathematics, and nothing in the output
depends on the clock.
"""

import io
from collections.abc import Callable
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
# A longer label leaves no room for the chart.
LONGEST_LABEL = 48


def draw(size: tuple[float, float], alt: str, paint: Callable[[Any, Any], None]) -> str:
    """Return what `paint(figure, axes)` draws, as SVG of `size` inches with the name `alt`."""
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
    name = alt.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return text.replace("<svg", f'<svg role="img" aria-label="{name}"', 1)


def short(label: str) -> str:
    """Return a label that leaves room for the chart."""
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def label_decades(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers, and at 2 and 5 between the decades."""
    axis.set_major_formatter(lambda value, _position: f"{value:g}")
    axis.set_minor_formatter(
        lambda value, _position: f"{value:g}" if f"{value:e}"[0] in "25" else ""
    )


def binary_size(size: float, _position: int) -> str:
    """Return the tick label of a size in bytes."""
    for scale, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= scale:
            return f"{size / scale:g} {name}"
    return f"{size:g} B"
