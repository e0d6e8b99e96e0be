"""A Gaussian process: a smooth function through noisy points, with an interval wherever it is asked.

Values are assumed smooth in every feature, each with a length of its own, which is found by maximising the likelihood
of the points (Rasmussen and Williams, Gaussian Processes for Machine Learning, chapters 2 and 5). Matern 5/2.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Lengths are in units of each feature's spread; noise and scale in those of the values.
LENGTH_BOUNDS = (0.05, 20.0)
NOISE_BOUNDS = (1e-3, 1.0)
SCALE_BOUNDS = (0.05, 10.0)
# Above this many points the lengths are found on an even part of them: the cost grows with the cube.
MOST_FOR_LENGTHS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianProcess:
    """A fitted process. `predict` gives mean and standard deviation of the function, noise left out."""

    features: Array
    middle: Array
    spread: Array
    values: Array
    offset: float
    lengths: Array
    scale: float
    noise: float
    factor: Array
    weights: Array

    def predict(self, features: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation at `features` [points, dims]."""
        from scipy.linalg import solve_triangular

        scaled = (np.atleast_2d(features) - self.middle) / self.spread
        cross = _kernel(scaled, self.features, self.lengths, self.scale)
        half = solve_triangular(self.factor, cross.T, lower=True)
        variance = np.maximum(self.scale**2 - (half**2).sum(axis=0), 1e-12)
        return cross @ self.weights + self.offset, np.sqrt(variance)

    def renewed(self, features: Array, values: Array) -> "GaussianProcess":
        """Return the process through other points with the same lengths."""
        scaled = (features - self.middle) / self.spread
        parameters = np.log(np.array([*self.lengths, self.scale, self.noise]))
        offset = float(values.mean())
        factor, weights, _ = _factor(scaled, values - offset, parameters, np.zeros_like(values))
        return replace(
            self, features=scaled, values=values, offset=offset, factor=factor, weights=weights
        )


def _kernel(one: Array, other: Array, lengths: Array, scale: float) -> Array:
    squared = (((one[:, None, :] - other[None, :, :]) / lengths) ** 2).sum(axis=-1)
    distance = np.sqrt(5 * np.maximum(squared, 1e-30))
    kernel: Array = scale**2 * (1 + distance + distance**2 / 3) * np.exp(-distance)
    return kernel


def _factor(
    scaled: Array, values: Array, parameters: Array, noise: Array
) -> tuple[Any, Array, float]:
    """Return the Cholesky factor, the weights and the negative log likelihood at log `parameters`."""
    from scipy.linalg import cho_solve, cholesky

    lengths, scale, extra = (
        np.exp(parameters[:-2]),
        float(np.exp(parameters[-2])),
        float(np.exp(parameters[-1])),
    )
    covariance = _kernel(scaled, scaled, lengths, scale) + np.diag(noise**2 + extra**2 + 1e-8)
    factor = cholesky(covariance, lower=True)
    weights = cho_solve((factor, True), values)
    return factor, weights, float(0.5 * values @ weights + np.log(np.diag(factor)).sum())


def fit_process(features: Array, values: Array, *, noise: Array | None = None) -> GaussianProcess:
    """Return the process through `values` at `features` [points, dims]; `noise` is each value's own known deviation."""
    from scipy.optimize import approx_fprime, minimize

    middle, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    scaled, offset = (features - middle) / spread, float(values.mean())
    centred = values - offset
    known = np.zeros_like(values) if noise is None else noise
    chosen = np.unique(
        np.linspace(0, len(values) - 1, min(len(values), MOST_FOR_LENGTHS)).astype(int)
    )
    size = max(float(centred.std()), 1e-3)

    def cost(parameters: Array) -> float:
        try:
            return _factor(scaled[chosen], centred[chosen], parameters, known[chosen])[2]
        except np.linalg.LinAlgError:
            return 1e12

    def slope(parameters: Array) -> Array:
        # Not minimize's own: a step to a bound may end a rounding error beyond it, and its differences refuse that.
        found: Array = approx_fprime(parameters, cost, 1e-8)
        return found

    dims = features.shape[1]
    bounds = (
        [np.log(LENGTH_BOUNDS)] * dims
        + [np.log(np.array(SCALE_BOUNDS) * size)]
        + [np.log(np.array(NOISE_BOUNDS) * size)]
    )
    starts = [np.log(np.array([length] * dims + [size, 0.2 * size])) for length in (0.7, 3.0)]
    fits = [
        minimize(cost, start, jac=slope, bounds=bounds, method="L-BFGS-B", options={"maxiter": 60})
        for start in starts
    ]
    best = min(fits, key=lambda fitted: float(fitted.fun)).x
    factor, weights, _ = _factor(scaled, centred, best, known)
    return GaussianProcess(
        features=scaled,
        middle=middle,
        spread=spread,
        values=values,
        offset=offset,
        lengths=np.exp(best[:-2]),
        scale=float(np.exp(best[-2])),
        noise=float(np.exp(best[-1])),
        factor=factor,
        weights=weights,
    )
