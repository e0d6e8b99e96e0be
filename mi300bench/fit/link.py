"""The time of a collective as a function of its size.

Physics: t = latency + S / bandwidth, with a kink where the library changes its algorithm or a
message outgrows a buffer. Latency and bandwidth come from one or two straight pieces, fitted to
relative errors. Inside the measured range a prediction interpolates the measured medians with
straight lines in log-log; its error is that of points predicted from the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mi300bench import stats
from mi300bench.errors import RecordError
from mi300bench.schema.doubt import Doubt, OutOfRange
from mi300bench.schema.model import Interval, Prediction
from mi300bench.schema.record import Measurement

Array = NDArray[np.float64]
# A second piece counts where it leaves less than this share of the squared relative error.
WORTH_A_PIECE = 0.5
# A straight line with a smaller relative error than this needs no second piece.
NEGLIGIBLE_ERROR = 0.01
FEWEST_POINTS = 3
# Outside the measured range a prediction's error is taken as this many times larger.
BEYOND_RANGE = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkModel:
    """A fitted collective.

    `sizes` and `seconds` are the measured medians, `errors` the relative errors on held-out points.
    `concurrency` is the rate of two collectives at once over that of one: 1 if one fills the link.
    """

    op: str
    ranks: int
    backend: str
    sizes: tuple[float, ...]
    seconds: tuple[float, ...]
    latency_s: float
    bandwidth: float  # bytes per second of message (algbw) that large messages approach
    knee_bytes: float  # where latency and transfer take equally long
    kink_bytes: float | None  # where the second straight piece starts
    errors: tuple[float, ...]
    evidence: tuple[str, ...]
    concurrency: float = 1.0

    @property
    def typical_error(self) -> float:
        """Return the 90th percentile of the relative errors on held-out points."""
        return float(np.quantile(self.errors, 0.9)) if self.errors else 0.1

    def seconds_of(self, message_bytes: float) -> float:
        """Return the predicted seconds of one call; beyond the range it follows straight lines."""
        low, high = self.sizes[0], self.sizes[-1]
        if message_bytes < low:
            return min(self.seconds[0], self.latency_s + message_bytes / self.bandwidth)
        if message_bytes > high:
            return self.seconds[-1] + (message_bytes - high) / self.bandwidth
        return _interpolate(message_bytes, np.array(self.sizes), np.array(self.seconds))

    def predict(self, message_bytes: float) -> Prediction:
        """Return the seconds of one call with an interval; outside the range it carries a doubt."""
        value, error = self.seconds_of(message_bytes), self.typical_error
        low, high = self.sizes[0], self.sizes[-1]
        doubts: tuple[Doubt, ...] = ()
        if not low <= message_bytes <= high:
            what = f"message bytes of {self.op} among {self.ranks} ranks"
            doubts = (OutOfRange(what=what, asked=message_bytes, low=low, high=high),)
            error *= BEYOND_RANGE
        interval = Interval(low=value / (1 + error), mid=value, high=value * (1 + error))
        return Prediction(value=interval, evidence=self.evidence, doubts=doubts)


def _interpolate(at: float, sizes: Array, seconds: Array) -> float:
    return float(np.exp(np.interp(np.log(at), np.log(sizes), np.log(seconds))))


def _straight(sizes: Array, seconds: Array) -> tuple[float, float, float]:
    """Return latency, seconds per byte and squared relative error of the best straight line."""
    from scipy.optimize import nnls

    design = np.stack([1 / seconds, sizes / seconds], axis=1)
    scale = design.max(axis=0)
    weights, residual = nnls(design / scale, np.ones_like(seconds))
    latency, slope = weights / scale
    return float(latency), float(slope), float(residual) ** 2


def _pieces(sizes: Array, seconds: Array) -> tuple[float, float, float | None]:
    """Return latency (of the first piece), seconds per byte (of the last), start of the last."""
    latency, slope, error = _straight(sizes, seconds)
    best: tuple[float, float, float, float | None] = (latency, slope, error, None)
    for cut in range(FEWEST_POINTS, len(sizes) - FEWEST_POINTS + 1):
        first, last = _straight(sizes[:cut], seconds[:cut]), _straight(sizes[cut:], seconds[cut:])
        together = first[2] + last[2]
        is_worth_it = error > len(sizes) * NEGLIGIBLE_ERROR**2 and together < WORTH_A_PIECE * error
        if is_worth_it and together < best[2] and last[1] > 0:
            best = (first[0], last[1], together, float(sizes[cut]))
    return best[0], best[1], best[3]


def _held_out(sizes: Array, seconds: Array) -> tuple[float, ...]:
    """Return the relative error of each inner point, predicted from the others."""
    errors = []
    for index in range(1, len(sizes) - 1):
        rest = np.arange(len(sizes)) != index
        predicted = _interpolate(sizes[index], sizes[rest], seconds[rest])
        errors.append(abs(predicted / seconds[index] - 1))
    return tuple(float(error) for error in errors)


def _concurrency(link: LinkModel, pairs: Sequence[Sequence[Measurement]]) -> float:
    """Return the median gain of two at once over one after the other, between 1 and 2."""
    gains = [
        2 * link.seconds_of(p[0].work.message_bytes / 2) / stats.interval_of(p).mid for p in pairs
    ]
    return min(2.0, max(1.0, stats.typical(gains))) if gains else 1.0


def fit_link(
    groups: Sequence[Sequence[Measurement]], *, pairs: Sequence[Sequence[Measurement]] = ()
) -> LinkModel:
    """Return the fit of one collective's points, each given as its passes.

    `pairs` are points with two collectives in flight; the concurrency comes from them. Raises
    `RecordError` below three sizes, or where the time does not grow with the size.
    """
    points: dict[float, tuple[float, list[str]]] = {}
    for passes in groups:
        size = passes[0].work.message_bytes
        points[size] = (stats.interval_of(passes).mid, [record.id for record in passes])
    if len(points) < FEWEST_POINTS:
        raise RecordError(
            f"the fit of a link needs at least {FEWEST_POINTS} message sizes, "
            f"the store has {len(points)}",
            hint="measure more sizes: mi300bench collectives --sizes 8:256M:x4",
        )
    sizes = np.array(sorted(points), dtype=float)
    seconds = np.array([points[size][0] for size in sizes])
    latency, slope, kink = _pieces(sizes, seconds)
    record: Any = groups[0][0]
    if slope <= 0:
        raise RecordError(
            f"{record.probe}: the time does not grow with the message size up to "
            f"{sizes[-1]:.0f} bytes, so the bandwidth is unknown",
            hint="measure larger messages: mi300bench collectives --sizes 8:256M:x4",
        )
    link = LinkModel(
        op=record.probe.removeprefix("collective."),
        ranks=record.world.ranks,
        backend=str(record.conditions.get("backend", "")),
        sizes=tuple(sizes),
        seconds=tuple(seconds),
        latency_s=max(latency, 0.0),
        bandwidth=1 / slope,
        knee_bytes=latency / slope,
        kink_bytes=kink,
        errors=_held_out(sizes, seconds),
        evidence=tuple(identity for size in sizes for identity in points[size][1])
        + tuple(r.id for passes in pairs for r in passes),
    )
    return replace(link, concurrency=_concurrency(link, pairs))
