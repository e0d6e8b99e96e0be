"""What another shape is predicted to do, on a device where every product runs at one rate."""

from dataclasses import replace

import numpy as np
import pytest
from mi300bench.fit.gemm import Product
from mi300bench.fit.step import Timeline
from mi300bench.strategies.ddp.shapes import factors_of, phase_products, seconds_of

from mi300bench_training.zaya1 import shapes
from mi300bench_training.zaya1.spec import TRAINER

RATE = 1e11


class Even:
    """A model of products that all run at one rate."""

    errors = (0.05,)

    def seconds(self, products):
        return np.array([p.flop / RATE for p in products])


def timeline(products_s: float, rest_s: float) -> Timeline:
    return Timeline(
        names=("a",),
        gradient_bytes=(4,),
        ready_s=(0.1,),
        forward_s=products_s + rest_s,
        backward_s=2 * products_s + rest_s,
        update_s=0.1,
        spread=0.01,
        evidence=("t",),
    )


def test_products_of_a_phase_are_those_of_a_linear_layer() -> None:
    config = TRAINER.preset("tiny")
    gemms = TRAINER.describe(config).gemms
    forward, backward = phase_products(gemms)
    assert seconds_of(Even(), backward) == pytest.approx(2 * seconds_of(Even(), forward))
    assert Product(m=512, n=256, k=128, layout="nt") in [
        product for product, _ in forward
    ]  # the head
    assert Product(m=256, n=128, k=512, layout="tn") in [product for product, _ in backward]


def test_at_one_rate_a_shape_costs_its_flop_and_the_rest_goes_with_the_width() -> None:
    config = TRAINER.preset("small")
    default = TRAINER.describe(config)
    forward, _ = phase_products(default.gemms)
    base = seconds_of(Even(), forward)
    wider = TRAINER.override(config, {"model.expert_width": 1024})
    factors = factors_of(
        Even(),
        default,
        TRAINER.describe(wider),
        timeline(base, 0.5 * base),
        width_ratio=1.0,
    )
    new = seconds_of(Even(), phase_products(TRAINER.describe(wider).gemms)[0])
    assert factors.forward == pytest.approx((new + 0.5 * base) / (1.5 * base))
    assert (
        factors.update > 1
        and factors.gradients == factors.update
        and factors.spread == pytest.approx(0.05)
    )


@pytest.mark.slow
def test_variants_keep_the_budget_and_are_models_that_can_be_built() -> None:
    config = TRAINER.preset("zaya1-8b")
    budget = shapes.describe(config).active_elements
    variants = shapes.variants(config, 0.02)
    assert len(variants) > 20
    described = shapes.describe(config)
    whole = described.total_elements - described.embedding_elements
    for keys in variants:
        changed = TRAINER.override(config, keys)
        other = shapes.describe(changed)
        assert abs((other.total_elements - other.embedding_elements) / whole - 1) <= 0.02
        assert abs(shapes.describe(changed).active_elements / budget - 1) <= 0.02
        assert changed.model.heads * changed.model.head_dim == 1024
    assert {"model.vocab": 262_400} in variants  # padded to a multiple of 256
    assert len(shapes.variants(config, 0.001)) < len(variants)


def test_padding_is_no_useful_work() -> None:
    config = TRAINER.preset("zaya1-8b")
    padded = TRAINER.override(config, {"model.vocab": 262_400})
    assert shapes.flop_per_token(padded) == shapes.flop_per_token(config)
    assert shapes.flop_per_token(
        replace(config, model=replace(config.model, hidden=2560))
    ) > shapes.flop_per_token(config)
