"""Variances of points and of families, against drawn values with known ones."""

import numpy as np
import pytest
from mi300bench.comparison.noise import (
    Estimate,
    deviation_around_median,
    moderated,
    shared,
    variance_of,
)


def drawn(deviations: list[float], count: int = 4) -> list[Estimate]:
    draw = np.random.default_rng(1)
    return [variance_of([float(v) for v in draw.normal(0, each, count)]) for each in deviations]


def test_one_value_has_no_variance() -> None:
    assert variance_of([1.0]) == Estimate() and variance_of([1.0, 3.0]).variance == 2.0


def test_equal_variances_are_taken_as_one_and_uneven_ones_are_not() -> None:
    even, uneven = shared(drawn([0.02] * 200)), shared(drawn([0.02, 0.2] * 100))
    assert even.variance == pytest.approx(0.02**2, rel=0.1) and even.freedom > 50
    assert uneven.freedom < 5


def test_a_few_variances_are_averaged_without_freedom() -> None:
    common = shared([Estimate(variance=1e-4, freedom=1), Estimate(variance=3e-4, freedom=3)])
    assert common == Estimate(variance=pytest.approx(2.5e-4)) and shared([]) == Estimate()


def test_a_moderated_variance_is_the_mean_by_degrees_of_freedom() -> None:
    own, common = Estimate(variance=4.0, freedom=1.0), Estimate(variance=1.0, freedom=3.0)
    assert moderated(own, common) == Estimate(variance=1.75, freedom=4.0)
    assert moderated(Estimate(), common).variance == 1.0


def test_an_outlier_does_not_move_the_deviation() -> None:
    values = [float(v) for v in np.random.default_rng(2).normal(0, 1, 999)]
    assert deviation_around_median([*values, 1e6]) == pytest.approx(1.0, abs=0.1)
