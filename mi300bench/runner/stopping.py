"""When a point has enough samples."""

from collections.abc import Sequence

from mi300bench import stats
from mi300bench.schema.doubt import NotSettled
from mi300bench.schema.plan import Stop

# A median needs this many samples, even if the time limit is reached.
FEWEST_SAMPLES = 3


def is_settled(samples: Sequence[float], stop: Stop) -> bool:
    """Return whether the median is known within the target of `stop`."""
    return (
        len(samples) >= stop.min_samples and stats.relative_half_width(samples) <= stop.relative_ci
    )


def is_over(samples: Sequence[float], stop: Stop, elapsed_s: float) -> bool:
    """Return whether sampling ends: the samples are settled, or the time limit is reached."""
    fewest = min(FEWEST_SAMPLES, stop.min_samples)
    is_out_of_time = elapsed_s >= stop.max_seconds and len(samples) >= fewest
    return is_settled(samples, stop) or is_out_of_time


def doubt_of(samples: Sequence[float], stop: Stop) -> NotSettled | None:
    """Return the doubt of a point that reached its time limit before it settled."""
    if is_settled(samples, stop):
        return None
    reached = min(stats.relative_half_width(samples), 1.0)
    return NotSettled(reached=round(reached, 4), wanted=stop.relative_ci, samples=len(samples))
