"""The fastest shape of a grid, from measurements of a small part of the grid.

The search begins with coarse points. Then a Gaussian process through the measured rates predicts,
for every shape of the grid, by how much it is expected to exceed the best rate so far (expected
improvement, Jones et al. 1998), and the most promising shape is measured next. The process models
the noise, so one lucky sample does not end the search. At the end the best few shapes, the
finalists, are measured in turn; those with nearly the best rate are ties.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mi300bench import stats
from mi300bench.fit.gaussian import Array, GaussianProcess, fit_process
from mi300bench.fit.gemm import Product, alignment

# The search ends when the expected improvement stays under this share for so many shapes.
WORTH, PATIENCE = 0.001, 5
# The number of finalists, the rounds in which each is measured, and the share of a tie.
FINALISTS, FINAL_ROUNDS = 5, 3
TIE = 0.01
# The lengths of the process are fitted afresh each time the points have grown by this factor.
REFIT_GROWTH = 1.3

Measure = Callable[[Product], float]  # seconds of one product, measured now; NaN where that failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One measurement of the search: FLOP per second, and seconds since the search began."""

    product: Product
    rate: float
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BestShape:
    """The best shape with its rate in the final rounds, its ties, and all measurements in order."""

    best: Product
    rate: float
    ties: tuple[Product, ...]
    trace: tuple[Trial, ...]
    is_settled: bool  # whether the search ended before its time was up


def _features(products: Sequence[Product]) -> Array:
    rows = [
        [math.log2(p.m), math.log2(p.n), math.log2(p.k), *map(alignment, (p.m, p.n, p.k))]
        for p in products
    ]
    return np.array(rows, dtype=float)


def coarse(grid: Sequence[Product], *, seed: int = 0) -> list[Product]:
    """Return the first shapes, cheapest first: one from the middle of each octant of the grid.

    `seed` chooses within the middle.
    """
    draw = np.random.default_rng(seed)
    axes = [sorted({getattr(p, name) for p in grid}) for name in "mnk"]
    wanted = set()
    for upper in itertools.product((False, True), repeat=3):
        halves = [
            axis[len(axis) // 2 :] if is_up else axis[: len(axis) // 2] or axis
            for axis, is_up in zip(axes, upper, strict=True)
        ]
        wanted.add(
            tuple(
                int(draw.choice(half[len(half) // 4 : len(half) - len(half) // 4] or half))
                for half in halves
            )
        )
    return sorted((p for p in grid if (p.m, p.n, p.k) in wanted), key=lambda p: p.flop)


def _likeliest(
    process: GaussianProcess, features: Array, best: float, tried: set[int]
) -> tuple[int, float]:
    """Return the untried shape with the highest expected improvement, and that improvement.

    The improvement is that of the logarithm of the rate over `best`.
    """
    from scipy.stats import norm

    mean, deviation = process.predict(features)
    ahead = (mean - best) / deviation
    gains = (mean - best) * norm.cdf(ahead) + deviation * norm.pdf(ahead)
    gains[list(tried)] = -1.0
    index = int(np.argmax(gains))
    return index, float(gains[index])


class _Search:
    """The state of one search: the shapes tried so far."""

    def __init__(self, grid: Sequence[Product], measure: Measure, now: Callable[[], float]) -> None:
        self.grid, self.features = list(grid), _features(grid)
        self.measure, self.now, self.start = measure, now, now()
        self.trace: list[Trial] = []
        self.tried: set[int] = set()

    def try_shape(self, index: int) -> None:
        """Measure one shape of the grid."""
        self.tried.add(index)
        product = self.grid[index]
        seconds = self.measure(product)
        if seconds > 0:
            self.trace.append(
                Trial(product=product, rate=product.flop / seconds, at_s=self.now() - self.start)
            )

    def explore(self, until: float, seed: int) -> bool:
        """Measure shapes while an improvement is likely; return whether it ended before `until`."""
        place = {product: index for index, product in enumerate(self.grid)}
        for product in coarse(self.grid, seed=seed):
            if self.now() < until:
                self.try_shape(place[product])
        process: GaussianProcess | None = None
        fitted, idle = 0, 0
        while self.now() < until and len(self.tried) < len(self.grid) and self.trace:
            seen = self.features[[place[t.product] for t in self.trace]]
            logs = np.log([t.rate for t in self.trace])
            if process is None or len(logs) >= fitted * REFIT_GROWTH:
                process, fitted = fit_process(seen, logs), len(logs)
            else:
                process = process.renewed(seen, logs)
            # The best rate by the process, not that of the luckiest sample.
            best = float(process.predict(seen)[0].max())
            index, gain = _likeliest(process, self.features, best, self.tried)
            idle = idle + 1 if gain < WORTH else 0
            if idle >= PATIENCE:
                return True
            self.try_shape(index)
        return len(self.tried) == len(self.grid)

    def finalists(self) -> list[Trial]:
        """Return the best trials by a process through all of them, or by rate if there are few."""
        if len(self.trace) < 2 * FINALISTS:
            return sorted(self.trace, key=lambda trial: -trial.rate)[:FINALISTS]
        features = _features([trial.product for trial in self.trace])
        process = fit_process(features, np.log([trial.rate for trial in self.trace]))
        smooth_rates, _ = process.predict(features)
        return [self.trace[index] for index in np.argsort(-smooth_rates)[:FINALISTS]]


def search_shapes(
    grid: Sequence[Product],
    measure: Measure,
    *,
    seconds: float,
    now: Callable[[], float],
    seed: int = 0,
) -> BestShape:
    """Return the fastest shape of `grid` in FLOP per second, found within `seconds`.

    Raises `ValueError` where no shape could be measured.
    """
    state = _Search(grid, measure, now)
    is_settled = state.explore(state.start + 0.8 * seconds, seed)
    if not state.trace:
        raise ValueError("no shape of the grid could be measured")
    finalists = state.finalists()
    rates = {trial.product: [trial.rate] for trial in finalists}
    order = list(rates)
    for number in range(FINAL_ROUNDS):
        for product in order if number % 2 == 0 else reversed(order):
            if state.now() < state.start + seconds:
                rates[product].append(product.flop / state.measure(product))
                state.trace.append(
                    Trial(product=product, rate=rates[product][-1], at_s=state.now() - state.start)
                )
    # A finalist's first rate is biased, because it made the shape a finalist: other rates are used.
    final = {
        product: stats.typical([r for r in seen[1:] if r > 0] or seen)
        for product, seen in rates.items()
    }
    best = max(final, key=lambda product: final[product])
    return BestShape(
        best=best,
        rate=final[best],
        ties=tuple(p for p, rate in final.items() if p != best and rate > (1 - TIE) * final[best]),
        trace=tuple(state.trace),
        is_settled=is_settled,
    )
