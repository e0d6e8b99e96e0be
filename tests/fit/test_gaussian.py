"""The Gaussian process where its optimizer meets a bound."""

import numpy as np
import pytest
from mi300bench.fit.gaussian import fit_process


@pytest.mark.parametrize("seed", [187, 523, 606])
def test_an_optimum_at_a_bound_is_an_optimum(seed: int) -> None:
    """Few shapes, and features that say the same twice: lengths go to their bounds, and past them by a rounding error."""
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
