"""The Gaussian process on known curves, and where its optimizer meets a bound."""

import math

import numpy as np
import pytest
from mi300bench.fit.gaussian import fit_process


def test_a_process_goes_through_its_points_and_is_unsure_away_from_them() -> None:
    x = np.linspace(0, 6, 15)[:, None]
    process = fit_process(x, np.sin(x[:, 0]))
    mean, deviation = process.predict(np.array([[1.05], [40.0]]))
    assert mean[0] == pytest.approx(math.sin(1.05), abs=0.02)
    assert deviation[1] > 10 * deviation[0]
    renewed = process.renewed(x, np.cos(x[:, 0]))
    assert renewed.predict(np.array([[2.0]]))[0][0] == pytest.approx(math.cos(2.0), abs=0.05)


@pytest.mark.parametrize("seed", [187, 523, 606])
def test_an_optimum_at_a_bound_is_an_optimum(seed: int) -> None:
    """Few shapes and duplicate features drive the lengths to their bounds and just beyond."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(4, 8, (10, 3)).astype(float)
    features = np.hstack([sizes, sizes])
    values = np.minimum(0.6 * sizes.sum(axis=1), 11.0) + draw.normal(0, 0.05, 10)
    process = fit_process(features, values)
    mean, deviation = process.predict(features)
    assert (
        np.isfinite(process.lengths).all()
        and np.abs(mean - values).max() < 1.0
        and (deviation > 0).all()
    )
