"""Bars: rates by shape, bytes by part, and buckets on a time axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench_reports.charts.svg import COLOURS, INK, draw, short

# A bucket shorter than this part of the step has no room for its size.
SHORTEST_WITH_SIZE = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLane:
    """The buckets of one packing: size in MiB, start and end in seconds."""

    label: str
    spans: tuple[tuple[float, float, float], ...]


def bars(labels: Sequence[str], values: Sequence[float], *, x_label: str, alt: str) -> str:
    """Return horizontal bars, the first on top."""

    def paint(_figure: Any, axes: Any) -> None:
        axes.barh(range(len(values)), values, color=COLOURS[0])
        axes.set_yticks(range(len(values)), [short(label) for label in labels])
        axes.invert_yaxis()
        axes.set_xlabel(x_label)

    return draw((7.2, 0.6 + 0.24 * len(values)), alt, paint)


def stacked(
    labels: Sequence[str],
    parts: Sequence[tuple[str, Sequence[float]]],
    *,
    limit: float,
    x_label: str,
    alt: str,
) -> str:
    """Return horizontal bars of several parts each, the first on top, and a vertical limit."""

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

    return draw((7.2, 1.2 + 0.28 * len(labels)), alt, paint)


def timeline(
    ready: Sequence[tuple[float, float]],
    backward_s: float,
    lanes: Sequence[BucketLane],
    *,
    alt: str,
) -> str:
    """Return the ready gradients (second, cumulative MiB), and below them the buckets by lane."""

    def paint(figure: Any, axes: Any) -> None:
        axes.remove()
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 0.6 + len(lanes)])
        above.step([t for t, _ in ready], [mib for _, mib in ready], where="post", color=COLOURS[0])
        above.set_ylabel("ready, MiB")
        last_s = max((end for lane in lanes for _, _, end in lane.spans), default=0.0)
        for row, lane in enumerate(lanes):
            for index, (size, start, end) in enumerate(lane.spans):
                below.barh(
                    row,
                    end - start,
                    left=start,
                    height=0.7,
                    color=COLOURS[row % len(COLOURS)],
                    alpha=0.85 if index % 2 == 0 else 0.5,
                )
                if end - start > SHORTEST_WITH_SIZE * last_s:
                    middle = (start + end) / 2
                    below.text(middle, row, f"{size:.0f}", ha="center", va="center", fontsize=8)
        below.set_yticks(range(len(lanes)), [short(lane.label) for lane in lanes])
        below.invert_yaxis()
        below.set_xlabel("seconds after the start of backward (numbers: MiB of a bucket)")
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

    return draw((7.2, 2.6 + 0.5 * len(lanes)), alt, paint)
