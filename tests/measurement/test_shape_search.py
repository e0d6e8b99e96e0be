"""The search finds the best shape of a made-up, noisy device in a small part of the grid."""

import math

import numpy as np
import pytest
from mi300bench.fit.gemm import Product
from mi300bench.measurement.gemm_study import grid_of
from mi300bench.measurement.shape_search import coarse, search_shapes

pytestmark = pytest.mark.slow

AXIS = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
GRID = grid_of([AXIS] * 3, "nt")
PEAK_AT = (1024, 512, 768)


def rate(product: Product) -> float:
    """One broad hill in the logarithms, and a dip where M is a multiple of 1536."""
    away = sum(
        (math.log2(a) - math.log2(b)) ** 2
        for a, b in zip((product.m, product.n, product.k), PEAK_AT, strict=True)
    )
    return 1e12 * math.exp(-0.1 * away) * (0.8 if product.m == 1536 else 1.0)


class Bench:
    """A clock that moves by what is measured."""

    def __init__(self, noise: float, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.noise, self.time = noise, 0.0

    def measure(self, product: Product) -> float:
        self.time += 0.1
        return product.flop / rate(product) * math.exp(self.noise * self.draw.standard_normal())

    def now(self) -> float:
        return self.time


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_best_is_found_within_a_twentieth_of_the_grid(seed: int) -> None:
    bench = Bench(0.02, seed)
    result = search_shapes(
        GRID, bench.measure, seconds=0.05 * 0.1 * len(GRID), now=bench.now, seed=seed
    )
    assert rate(result.best) >= 0.96e12  # noise of 2 % on neighbours that differ by 3 %
    assert len(result.trace) <= 0.05 * len(GRID) + 1
    assert all(rate(tie) > 0.93e12 for tie in result.ties)


def test_the_search_ends_with_its_time_unsettled() -> None:
    bench = Bench(0.0, 1)
    result = search_shapes(GRID, bench.measure, seconds=1.0, now=bench.now)
    assert not result.is_settled and len(result.trace) <= 11


def test_a_flat_device_is_all_ties_and_settles_early() -> None:
    result = search_shapes(GRID, lambda p: p.flop / 1e12, seconds=1e9, now=lambda: 0.0)
    assert result.is_settled and len(result.ties) == 4 and len(result.trace) < 40


def test_shapes_that_fail_are_passed_over_and_nothing_at_all_is_an_error() -> None:
    bench = Bench(0.0, 1)
    result = search_shapes(
        GRID, lambda p: float("nan") if p.k == 768 else bench.measure(p), seconds=6.0, now=bench.now
    )
    assert result.best.k != 768 and rate(result.best) > 0.9e12
    bench = Bench(0.0, 1)

    def broken(_: Product) -> float:
        bench.time += 0.1
        return float("nan")

    with pytest.raises(ValueError, match="shape"):
        search_shapes(GRID, broken, seconds=2.0, now=bench.now)


def test_the_first_shapes_cover_the_grid_and_depend_on_the_seed_alone() -> None:
    first = coarse(GRID, seed=1)
    assert first == coarse(GRID, seed=1) and first != coarse(GRID, seed=2) and len(first) == 8
    assert [p.flop for p in first] == sorted(p.flop for p in first)
