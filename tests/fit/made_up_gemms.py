"""A made-up device whose matrix products take known times."""

import math

from mi300bench.fit.gemm import Product
from mi300bench.measurement.gemm_study import random_shapes

PEAK, LAUNCH = 1e12, 2e-6
AXES = [[64, 128, 256, 512, 1024, 2048]] * 3


def seconds(product: Product) -> float:
    """Return what a made-up device takes.

    It is slow at small K, a third slower where N is not a multiple of 16, and tiles M by 64.
    """
    covered = math.ceil(product.m / 64) * 64
    flop = 2.0 * covered * product.n * product.k
    efficiency = product.k / (product.k + 40) * (1.0 if product.n % 16 == 0 else 0.67)
    return LAUNCH + flop / (PEAK * efficiency)


def drawn(count: int, seed: int) -> list[Product]:
    """Return random shapes within `AXES`."""
    return [
        p
        for p, _ in zip(
            random_shapes(AXES, ("nt", "nn", "tn"), seed=seed), range(count), strict=False
        )
    ]
