"""Records of matrix products as the made-up device times them."""

import math

import numpy as np
import pytest
from mi300bench.schema.record import Work
from tests.fit.made_up_gemms import seconds


@pytest.fixture
def measured(make_record):
    """Return a function that gives the groups of products as the device times them."""

    def give(products, noise: float = 0.0, dtype: str = "bfloat16"):
        draw = np.random.default_rng(3)
        groups = []
        for p in products:
            took = seconds(p) * math.exp(noise * draw.standard_normal())
            params = {"m": p.m, "n": p.n, "k": p.k, "layout": p.layout, "dtype": dtype}
            groups.append(
                [make_record("gemm", params=params, samples=(took,) * 5, work=Work(flop=p.flop))]
            )
        return groups

    return give
