"""A Gaussian process: a smooth function through noisy points, with an interval at every query.

The function is assumed smooth in every feature. Each feature has its own length scale, which
maximises the likelihood of the points (Rasmussen and Williams, Gaussian Processes for Machine
Learning, chapters 2 and 5). The kernel is Matern 5/2.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Lengths are in units of each feature's standard deviation; noise and scale in those of the values.
LENGTH_BOUNDS = (0.05, 20.0)
NOISE_BOUNDS = (1e-3, 1.0)
SCALE_BOUNDS = (0.05, 10.0)
# The cost of fitting the lengths grows with the cube of the points, so at most this many are used,
# evenly spaced.
MOST_FOR_LENGTHS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianProcess:
    """A fitted process. `predict` gives mean and deviation of the function, without noise."""

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
        """Return a process through other points, with the lengths, scale and noise of this one."""
        scaled = (features - self.middle) / self.spread
        parameters = np.log(np.array([*self.lengths, self.scale, self.noise]))
        offset = float(values.mean())
        factor, weights, _ = _factor(scaled, values - offset, parameters)
        return replace(
            self, features=scaled, values=values, offset=offset, factor=factor, weights=weights
        )


def _kernel(one: Array, other: Array, lengths: Array, scale: float) -> Array:
    squared = (((one[:, None, :] - other[None, :, :]) / lengths) ** 2).sum(axis=-1)
    distance = np.sqrt(5 * np.maximum(squared, 1e-30))
    kernel: Array = scale**2 * (1 + distance + distance**2 / 3) * np.exp(-distance)
    return kernel


def _factor(scaled: Array, values: Array, parameters: Array) -> tuple[Any, Array, float]:
    """Return the Cholesky factor, the weights and the negative log likelihood at `parameters`.

    `parameters` are logarithms: one length for each feature, then scale and noise.
    """
    from scipy.linalg import cho_solve, cholesky

    lengths = np.exp(parameters[:-2])
    scale, noise = float(np.exp(parameters[-2])), float(np.exp(parameters[-1]))
    covariance = _kernel(scaled, scaled, lengths, scale)
    covariance += (noise**2 + 1e-8) * np.eye(len(scaled))
    factor = cholesky(covariance, lower=True)
    weights = cho_solve((factor, True), values)
    return factor, weights, float(0.5 * values @ weights + np.log(np.diag(factor)).sum())


def fit_process(features: Array, values: Array) -> GaussianProcess:
    """Return the process through `values` at `features` [points, dims]."""
    from scipy.optimize import approx_fprime, minimize

    middle, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    scaled, offset = (features - middle) / spread, float(values.mean())
    centred = values - offset
    sample = np.unique(
        np.linspace(0, len(values) - 1, min(len(values), MOST_FOR_LENGTHS)).astype(int)
    )
    size = max(float(centred.std()), 1e-3)

    def cost(parameters: Array) -> float:
        try:
            return _factor(scaled[sample], centred[sample], parameters)[2]
        except np.linalg.LinAlgError:
            return 1e12

    def gradient(parameters: Array) -> Array:
        # minimize's own finite differences raise an error when a step ends beyond a bound by a
        # rounding error (scipy 1.17); approx_fprime has no bounds.
        slopes: Array = approx_fprime(parameters, cost, 1e-8)
        return slopes

    dims = features.shape[1]
    bounds = (
        [np.log(LENGTH_BOUNDS)] * dims
        + [np.log(np.array(SCALE_BOUNDS) * size)]
        + [np.log(np.array(NOISE_BOUNDS) * size)]
    )
    starts = [np.log(np.array([length] * dims + [size, 0.2 * size])) for length in (0.7, 3.0)]
    fits = [
        minimize(
            cost, start, jac=gradient, bounds=bounds, method="L-BFGS-B", options={"maxiter": 60}
        )
        for start in starts
    ]
    best = min(fits, key=lambda fitted: float(fitted.fun)).x
    factor, weights, _ = _factor(scaled, centred, best)
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
