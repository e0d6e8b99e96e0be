"""The fit of matrix products against a made-up device whose times are known."""

import numpy as np
import pytest
from mi300bench.errors import RecordError
from mi300bench.fit.gemm import Product, alignment, fit_gemm, workload_score
from mi300bench.schema.doubt import OutOfRange
from mi300bench.schema.model import Gemm
from tests.fit.made_up_gemms import drawn, seconds


@pytest.mark.slow
def test_shapes_never_seen_are_predicted_better_than_by_the_nearest(measured) -> None:
    model = fit_gemm(measured(drawn(120, 1), noise=0.02))
    judged = drawn(60, 2)
    errors = np.abs(model.seconds(judged) / [seconds(p) for p in judged] - 1)
    assert np.median(errors) < 0.1
    assert np.median(model.errors) < 0.1 and np.median(model.errors) < np.median(
        model.nearest_errors
    )
    inside = [
        model.predict(p).value.low <= seconds(p) <= model.predict(p).value.high for p in judged
    ]
    assert np.mean(inside) > 0.85


@pytest.mark.slow
def test_outside_the_range_the_interval_widens_and_says_so(measured) -> None:
    model = fit_gemm(measured(drawn(60, 1)))
    inside, outside = (
        model.predict(Product(m=512, n=512, k=512)),
        model.predict(Product(m=512, n=512, k=100_000)),
    )
    assert not inside.doubts
    (doubt,) = outside.doubts
    assert isinstance(doubt, OutOfRange) and doubt.asked == 100_000
    assert outside.value.high / outside.value.mid > inside.value.high / inside.value.mid


def test_too_few_shapes_or_two_types_are_refused(measured) -> None:
    with pytest.raises(RecordError, match=r"12 shapes.* 5"):
        fit_gemm(measured(drawn(5, 1)))
    with pytest.raises(RecordError, match="bfloat16 and float32"):
        fit_gemm([*measured(drawn(20, 1)), *measured(drawn(20, 2), dtype="float32")])


def test_a_workload_is_all_flop_over_all_time(measured) -> None:
    gemms = [Gemm(name="a", m=128, n=256, k=64, count=3), Gemm(name="b", m=64, n=64, k=64)]
    products = [
        Product(m=128, n=256, k=64),
        Product(m=128, n=64, k=256, layout="nn"),
        Product(m=256, n=64, k=128, layout="tn"),
        *(Product(m=64, n=64, k=64, layout=layout) for layout in ("nt", "nn", "tn")),
    ]
    score = workload_score(measured(products), gemms)
    assert score is not None
    counted = [(p, 3 if p.m != p.n else 1) for p in products]
    together = sum(p.flop * c for p, c in counted) / sum(seconds(p) * c for p, c in counted)
    assert score.together == pytest.approx(together) and score.best > score.together
    assert workload_score(measured(products[:-1]), gemms) is None


def test_alignment_is_the_power_of_two_that_divides() -> None:
    assert [alignment(size) for size in (1, 6, 32, 96, 4096)] == [0, 1, 5, 5, 7]
