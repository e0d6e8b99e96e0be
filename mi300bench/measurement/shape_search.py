"""The best shape of a grid without measuring the grid: coarse points first, then where an improvement is likely.

A Gaussian process over the measured rates says for every shape of the grid how much it can be expected to beat the best
so far (expected improvement, Jones et al. 1998), and the most promising is measured next. The noise of the measurements
is in it, so a lucky sample does not end the search. The finalists, all that cannot be told from the best, are then
measured against each other in turn; those that still tie are named as ties.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mi300bench import stats
from mi300bench.fit.gaussian import Array, GaussianProcess, fit_process
from mi300bench.fit.gemm import Product, alignment

# The search ends when the likeliest improvement stays under this share of the best rate for so many shapes.
WORTH, PATIENCE = 0.001, 5
# Finalists and how often each is measured again; within this share of the best they tie.
FINALISTS, FINAL_ROUNDS = 5, 3
TIE = 0.01
# The lengths of the process are found anew after each growth by this factor.
REFIT_GROWTH = 1.3

Measure = Callable[[Product], float]  # seconds of one product, measured now; NaN where that failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One measurement of the search: what, how fast in FLOP per second, and seconds since the search began."""

    product: Product
    rate: float
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The best shape, those that tie with it, the rate of each in the final rounds, and every measurement in order."""

    best: Product
    rate: float
    ties: tuple[Product, ...]
    trace: tuple[Tried, ...]
    is_settled: bool  # whether the search ended by itself and not because time was up


def _features(products: Sequence[Product]) -> Array:
    rows = [
        [math.log2(p.m), math.log2(p.n), math.log2(p.k), *map(alignment, (p.m, p.n, p.k))]
        for p in products
    ]
    return np.array(rows, dtype=float)


def coarse(grid: Sequence[Product], *, seed: int = 0) -> list[Product]:
    """Return the first shapes, cheapest first: one from the middle of each octant of the grid, drawn by `seed`."""
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
    chosen = [p for p in grid if (p.m, p.n, p.k) in wanted]
    return sorted(chosen, key=lambda p: p.flop)


def _likeliest(
    process: GaussianProcess, features: Array, best: float, tried: set[int]
) -> tuple[int, float]:
    """Return the untried shape with the highest expected improvement of the log rate over `best`, and that improvement."""
    from scipy.stats import norm

    mean, deviation = process.predict(features)
    ahead = (mean - best) / deviation
    gains = (mean - best) * norm.cdf(ahead) + deviation * norm.pdf(ahead)
    gains[list(tried)] = -1.0
    index = int(np.argmax(gains))
    return index, float(gains[index])


class _Search:
    """The state of one search: what was tried so far."""

    def __init__(self, grid: Sequence[Product], measure: Measure, now: Callable[[], float]) -> None:
        self.grid, self.features = list(grid), _features(grid)
        self.measure, self.now, self.start = measure, now, now()
        self.trace: list[Tried] = []
        self.tried: set[int] = set()

    def take(self, index: int) -> None:
        self.tried.add(index)
        product = self.grid[index]
        seconds = self.measure(product)
        if seconds > 0:
            self.trace.append(
                Tried(product=product, rate=product.flop / seconds, at_s=self.now() - self.start)
            )

    def explore(self, until: float, seed: int) -> bool:
        """Measure where improvement is likely, until it is not or time is up; return whether it ended by itself."""
        place = {product: index for index, product in enumerate(self.grid)}
        for product in coarse(self.grid, seed=seed):
            if self.now() < until:
                self.take(place[product])
        process: GaussianProcess | None = None
        fitted, idle = 0, 0
        while self.now() < until and len(self.tried) < len(self.grid) and self.trace:
            seen = self.features[[place[t.product] for t in self.trace]]
            logs = np.log([t.rate for t in self.trace])
            if process is None or len(logs) >= fitted * REFIT_GROWTH:
                process, fitted = fit_process(seen, logs), len(logs)
            else:
                process = process.renewed(seen, logs)
            # The best is what the process believes of the tried shapes, not the luckiest sample.
            best = float(process.predict(seen)[0].max())
            index, gain = _likeliest(process, self.features, best, self.tried)
            idle = idle + 1 if gain < WORTH else 0
            if idle >= PATIENCE:
                return True
            self.take(index)
        return len(self.tried) == len(self.grid)

    def finalists(self) -> list[Tried]:
        """Return the tried shapes that a process through all of them holds for the best: a lucky sample is not enough."""
        if len(self.trace) < 2 * FINALISTS:
            return sorted(self.trace, key=lambda tried: -tried.rate)[:FINALISTS]
        features = _features([tried.product for tried in self.trace])
        believed, _ = fit_process(features, np.log([tried.rate for tried in self.trace])).predict(
            features
        )
        return [self.trace[index] for index in np.argsort(-believed)[:FINALISTS]]


def search_shapes(
    grid: Sequence[Product],
    measure: Measure,
    *,
    seconds: float,
    now: Callable[[], float],
    seed: int = 0,
) -> Found:
    """Return the fastest shape of `grid` in FLOP per second, within `seconds`; `ValueError` where nothing could be measured."""
    state = _Search(grid, measure, now)
    is_settled = state.explore(state.start + 0.8 * seconds, seed)
    if not state.trace:
        raise ValueError("no shape of the grid could be measured")
    finalists = state.finalists()
    rates = {tried.product: [tried.rate] for tried in finalists}
    order = list(rates)
    for number in range(FINAL_ROUNDS):
        for product in order if number % 2 == 0 else reversed(order):
            if state.now() < state.start + seconds:
                rates[product].append(product.flop / state.measure(product))
                state.trace.append(
                    Tried(product=product, rate=rates[product][-1], at_s=state.now() - state.start)
                )
    # A finalist's first rate made it one, so it is left out where there are others.
    final = {
        product: stats.typical([r for r in seen[1:] if r > 0] or seen)
        for product, seen in rates.items()
    }
    best = max(final, key=lambda product: final[product])
    return Found(
        best=best,
        rate=final[best],
        ties=tuple(p for p, rate in final.items() if p != best and rate > (1 - TIE) * final[best]),
        trace=tuple(state.trace),
        is_settled=is_settled,
    )
