"""Sides drawn at random, with and without a planted change."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from mi300bench.comparison.medians import Medians, Side
from mi300bench.stats import Verdict

CHANGED = (Verdict.SLOWER, Verdict.FASTER)
Draw = np.random.Generator


def side(
    draw: Draw,
    points: int,
    *,
    noise: float | Sequence[float] = 0.01,
    drift: float = 0.0,
    common: float = 0.0,
    together: float = 0.0,
    tails: float = 0.0,
    processes: int = 3,
    slow: Mapping[int, float] | None = None,
    earlier: int = 0,
    families: int = 1,
) -> Side:
    """Return points of a few processes each, drawn at random.

    Every process scatters by its point's `noise`, with outliers where `tails` gives degrees of
    freedom. `drift` moves each point of a run by itself, `common` all points of a run, `together`
    all points of a process. `slow` multiplies the newest run of a point.
    """
    drawn = {}
    shared = draw.normal(0, common, earlier + 1)
    of_process = draw.normal(0, together, (earlier + 1, processes))
    for index in range(points):
        own = noise if isinstance(noise, float) else noise[index]

        def run(
            number: int, count: int, start: float = 1e-3 * (1 + index), own: float = own
        ) -> list[float]:
            level = start * np.exp(draw.normal(0, drift) + shared[number])
            scatter = draw.standard_t(tails, count) if tails else draw.normal(0, 1, count)
            return [float(value) for value in level * np.exp(own * scatter + of_process[number])]

        before = {
            f"run{number}": float(np.median(run(number, processes))) for number in range(earlier)
        }
        now = tuple(value * (slow or {}).get(index, 1.0) for value in run(earlier, processes))
        drawn[f"p{index}"] = Medians(
            label=f"p{index}",
            family=f"f{index % families}",
            seconds=now,
            evidence=(f"r{index}",),
            run="now",
            earlier=before,
        )
    return drawn


# Both sides of one unchanged machine, under each kind of noise.
UNEVEN = [0.08] * 8 + [0.005] * 32
NOTHING_PLANTED: dict[str, Callable[[Draw], tuple[Side, Side]]] = {
    "even": lambda d: (side(d, 100, noise=0.03), side(d, 100, noise=0.03)),
    "few points": lambda d: (side(d, 5, noise=0.03), side(d, 5, noise=0.03)),
    "two processes": lambda d: (
        side(d, 30, noise=0.03, processes=2),
        side(d, 30, noise=0.03, processes=2),
    ),
    "one process": lambda d: (
        side(d, 20, noise=0.04, processes=1),
        side(d, 20, noise=0.04, processes=1),
    ),
    "uneven": lambda d: (side(d, 40, noise=UNEVEN), side(d, 40, noise=UNEVEN)),
    "runs differ": lambda d: (
        side(d, 40, noise=0.005, drift=0.03),
        side(d, 40, noise=0.005, drift=0.03),
    ),
    "runs differ, few points": lambda d: (
        side(d, 8, noise=0.005, drift=0.03),
        side(d, 8, noise=0.005, drift=0.03),
    ),
    "runs differ, and are known": lambda d: (
        side(d, 40, noise=0.005, drift=0.03),
        side(d, 40, noise=0.005, drift=0.03, earlier=5),
    ),
    "processes move together": lambda d: (
        side(d, 40, noise=0.005, together=0.02),
        side(d, 40, noise=0.005, together=0.02),
    ),
    "all in one process": lambda d: (
        side(d, 40, together=0.1, processes=1),
        side(d, 40, together=0.1, processes=1),
    ),
    "one process with outliers": lambda d: (
        side(d, 60, tails=3.0, processes=1),
        side(d, 60, tails=3.0, processes=1),
    ),
    "the machine drifts": lambda d: (
        side(d, 8, noise=0.005, common=0.012),
        side(d, 8, noise=0.005, common=0.012),
    ),
    "it drifts, and is known": lambda d: (
        side(d, 8, noise=0.005, common=0.012),
        side(d, 8, noise=0.005, common=0.012, earlier=5),
    ),
}
