"""The cost of another model shape, from the fit of matrix products.

A step consists of its matrix products, which the fit predicts one by one, and of a rest: norms,
attention, element-wise work. The rest is the measured step minus the products at the default shape;
it grows with the hidden width. The quality of a shape is not measured, which is a doubt.
"""

from collections.abc import Sequence

import numpy as np

from mi300bench.fit.gemm import GemmModel, Product, products_of
from mi300bench.fit.step import Factors, Timeline
from mi300bench.schema.model import Gemm, ModelDescription

# The smallest rest, as a share of the measured phase. It applies if the predicted products alone
# take longer than the phase.
LEAST_REST = 0.1


def phase_products(
    gemms: Sequence[Gemm],
) -> tuple[list[tuple[Product, int]], list[tuple[Product, int]]]:
    """Return (product, count) of the forward pass and of the backward pass."""
    every = products_of(gemms)
    return [row for row in every if row[0].layout == "nt"], [
        row for row in every if row[0].layout != "nt"
    ]


def seconds_of(model: GemmModel, products: Sequence[tuple[Product, int]]) -> float:
    """Return the predicted seconds of all products."""
    return float(
        model.seconds([p for p, _ in products])
        @ np.array([count for _, count in products], dtype=float)
    )


def factors_of(
    model: GemmModel,
    default: ModelDescription,
    variant: ModelDescription,
    timeline: Timeline,
    *,
    width_ratio: float,
) -> Factors:
    """Return the factor of each phase of the measured step for the shape of `variant`."""
    ratios = []
    phases = (timeline.forward_s, timeline.backward_s)
    for measured, before, after in zip(
        phases, phase_products(default.gemms), phase_products(variant.gemms), strict=True
    ):
        old, new = seconds_of(model, before), seconds_of(model, after)
        rest = max(measured - old, LEAST_REST * measured)
        ratios.append((new + rest * width_ratio) / (old + rest))
    return Factors(
        forward=ratios[0],
        backward=ratios[1],
        update=variant.total_elements / default.total_elements,
        gradients=variant.total_elements / default.total_elements,
        spread=float(np.median(model.errors)) if model.errors else 0.1,
    )
