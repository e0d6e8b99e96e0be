"""Lines and points: bandwidth over size, loss over steps, the roofline, predicted and measured."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench_reports.charts.svg import (
    COLOURS,
    INK,
    binary_size,
    draw,
    label_decades,
    short,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points of one series. `is_fit` draws a dashed line without points."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    is_fit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPoint:
    """Predicted seconds of one config, and its measured seconds with their interval."""

    label: str
    predicted_s: float
    measured_s: float
    low_s: float
    high_s: float


def by_size(
    curves: Sequence[Curve],
    *,
    x_label: str,
    y_label: str,
    alt: str,
    marks: Sequence[tuple[float, str]] = (),
    ranges: Sequence[tuple[float, float, float]] = (),
    log_y: bool = True,
) -> str:
    """Return curves over a logarithmic axis of sizes in bytes.

    `marks` are vertical lines (size, text); `ranges` are published ranges (size, low, high). A fit
    has the colour of the curve before it.
    """

    def paint(_figure: Any, axes: Any) -> None:
        for index, curve in enumerate(curves):
            if curve.is_fit:
                style, colour, width = "--", COLOURS[(index - 1) % len(COLOURS)], 1.2
            else:
                style, colour, width = "o-", COLOURS[index % len(COLOURS)], 1.5
            axes.plot(
                curve.x,
                curve.y,
                style,
                color=colour,
                label=short(curve.label),
                markersize=4,
                linewidth=width,
            )
        for index, (size, low, high) in enumerate(ranges):
            axes.plot(
                [size, size],
                [low, high],
                color=INK,
                linewidth=6,
                alpha=0.35,
                solid_capstyle="butt",
                label="published" if index == 0 else None,
            )
        for size, text in marks:
            axes.axvline(size, color=INK, linewidth=0.8, linestyle=":")
            axes.annotate(
                text,
                (size, 1.0),
                xycoords=("data", "axes fraction"),
                fontsize=8,
                rotation=90,
                va="top",
                ha="right",
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(binary_size)
        if log_y:
            axes.set_yscale("log")
            label_decades(axes.yaxis)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.legend(fontsize=9)

    return draw((7.2, 3.6), alt, paint)


def losses(curves: Sequence[Curve], *, alt: str) -> str:
    """Return loss by step, one line per run."""

    def paint(_figure: Any, axes: Any) -> None:
        for curve, colour in zip(curves, itertools.cycle(COLOURS), strict=False):
            axes.plot(curve.x, curve.y, color=colour, linewidth=1.2, label=short(curve.label))
        axes.set_xlabel("step")
        axes.set_ylabel("loss")
        axes.legend(fontsize=8)

    return draw((7.5, 3.2), alt, paint)


def roofline(
    points: Sequence[tuple[str, float, float]],
    *,
    peaks: Sequence[tuple[str, float]],
    bandwidth: float,
    alt: str,
) -> str:
    """Return rates over intensity under the slope of `bandwidth` (B/s) and the roofs of `peaks`.

    `points` are (label, FLOP/byte, FLOP/s) and `peaks` are (label, FLOP/s).
    """

    def paint(_figure: Any, axes: Any) -> None:
        intensities = [intensity for _, intensity, _ in points]
        ridges = [rate / bandwidth for _, rate in peaks]
        least, most = min(intensities) / 4, max(*intensities, *ridges) * 2
        for index, ((label, rate), ridge) in enumerate(zip(peaks, ridges, strict=True)):
            axes.plot(
                [least, ridge, most],
                [least * bandwidth / 1e12, rate / 1e12, rate / 1e12],
                "--",
                linewidth=1.2,
                color=COLOURS[(index + 2) % len(COLOURS)],
                label=short(label),
            )
        groups: dict[str, list[tuple[float, float]]] = {}
        for label, intensity, rate in points:
            groups.setdefault(label, []).append((intensity, rate / 1e12))
        for (label, group), colour in zip(groups.items(), itertools.cycle(COLOURS), strict=False):
            axes.plot(
                [intensity for intensity, _ in group],
                [rate for _, rate in group],
                "o",
                markersize=4,
                color=colour,
                label=short(label),
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("intensity, FLOP per byte of operands")
        axes.set_ylabel("TFLOPS")
        label_decades(axes.yaxis)
        label_decades(axes.xaxis)
        axes.legend(fontsize=8)

    return draw((7.2, 3.6), alt, paint)


def predicted_and_measured(points: Sequence[StepPoint], *, alt: str) -> str:
    """Return measured over predicted seconds of a step, with the diagonal on which both agree."""

    def paint(_figure: Any, axes: Any) -> None:
        lowest, highest = min(p.low_s for p in points), max(p.high_s for p in points)
        least = min(lowest, *(p.predicted_s for p in points)) * 0.95
        most = max(highest, *(p.predicted_s for p in points)) * 1.05
        axes.plot([least, most], [least, most], color=INK, linewidth=0.8, linestyle=":")
        for index, point in enumerate(points):
            axes.errorbar(
                [point.predicted_s],
                [point.measured_s],
                yerr=[[point.measured_s - point.low_s], [point.high_s - point.measured_s]],
                fmt="o",
                color=COLOURS[index % len(COLOURS)],
                label=short(point.label),
            )
        axes.set_xlim(least, most)
        axes.set_ylim(min(least, lowest), max(most, highest))
        axes.set_xlabel("predicted seconds per step")
        axes.set_ylabel("measured seconds per step")
        axes.legend(fontsize=8)

    return draw((5.2, 3.8), alt, paint)
