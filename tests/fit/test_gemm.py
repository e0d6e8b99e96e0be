"""The fit of products against a device whose times are known, and its own rules of thumb."""

import math

import numpy as np
import pytest
from mi300bench.errors import RecordError
from mi300bench.fit import gemm_rules
from mi300bench.fit.gaussian import fit_process
from mi300bench.fit.gemm import Product, alignment, fit_gemm, workload_score
from mi300bench.measurement.gemm_study import random_shapes, read_rules, rule_lines
from mi300bench.schema.model import Gemm
from mi300bench.schema.record import Work

PEAK, LAUNCH = 1e12, 2e-6
AXES = [[64, 128, 256, 512, 1024, 2048]] * 3


def seconds(product: Product) -> float:
    """A made-up device: a slow start along K, a third slower where N is not a multiple of 16, tiles of 64 along M."""
    covered = math.ceil(product.m / 64) * 64
    flop = 2.0 * covered * product.n * product.k
    efficiency = product.k / (product.k + 40) * (1.0 if product.n % 16 == 0 else 0.67)
    return LAUNCH + flop / (PEAK * efficiency)


@pytest.fixture
def measured(make_record):
    """Return a function that gives the groups of products as the device would time them."""

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


def drawn(count: int, seed: int) -> list[Product]:
    return [
        p
        for p, _ in zip(
            random_shapes(AXES, ("nt", "nn", "tn"), seed=seed), range(count), strict=False
        )
    ]


def test_a_process_goes_through_its_points_and_is_unsure_away_from_them() -> None:
    x = np.linspace(0, 6, 15)[:, None]
    process = fit_process(x, np.sin(x[:, 0]))
    mean, deviation = process.predict(np.array([[1.05], [40.0]]))
    assert mean[0] == pytest.approx(math.sin(1.05), abs=0.02)
    assert deviation[1] > 10 * deviation[0]
    renewed = process.renewed(x, np.cos(x[:, 0]))
    assert renewed.predict(np.array([[2.0]]))[0][0] == pytest.approx(math.cos(2.0), abs=0.05)


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


def test_outside_the_range_the_interval_widens_and_says_so(measured) -> None:
    model = fit_gemm(measured(drawn(60, 1)))
    inside, outside = (
        model.predict(Product(m=512, n=512, k=512)),
        model.predict(Product(m=512, n=512, k=100_000)),
    )
    assert not inside.doubts and outside.doubts and "K" in str(outside.doubts[0])
    assert outside.value.high / outside.value.mid > inside.value.high / inside.value.mid


def test_too_few_shapes_or_two_types_are_refused(measured) -> None:
    with pytest.raises(RecordError, match="at least 12 shapes"):
        fit_gemm(measured(drawn(5, 1)))
    with pytest.raises(RecordError, match="do not share a fit"):
        fit_gemm([*measured(drawn(20, 1)), *measured(drawn(20, 2), dtype="float32")])


def test_the_rules_planted_in_the_device_come_out(measured) -> None:
    best = Product(m=2048, n=2048, k=2048)
    plateau = best.flop / seconds(best)
    groups = measured([*rule_lines(best, AXES), *drawn(40, 1)])
    rules = {(rule.name, rule.axis): rule for rule in read_rules(best, AXES, groups, plateau)}
    # K / (K + 40) reaches 95 % of K = 2048's 0.981 at 545: of the sizes measured, 1024.
    assert rules["least", "k"].value == 1024 and "512 is not enough" in rules["least", "k"].said
    assert rules["alignment", "n"].value == 16 and "67%" in rules["alignment", "n"].said
    assert rules["alignment", "k"].value == 1
    assert rules["tile", "m"].value == 64 and rules["tile", "n"].value is None
    assert rules["least", "n"].value == 64 and "already the smallest" in rules["least", "n"].said
    assert all(rule.evidence for rule in rules.values())
    cheapest = rules["flop", ""]
    assert cheapest.value < best.flop and "can be enough" in cheapest.said


def test_a_published_rule_is_priced_for_the_model_at_hand(measured) -> None:
    model = fit_gemm(measured(drawn(80, 1)))
    rule = gemm_rules.PublishedRule(
        source="somebody", least_m=512, least_n=512, least_k=1024, least_flop=0
    )
    small, large = Product(m=256, n=512, k=256), Product(m=512, n=512, k=1024)
    cost = gemm_rules.cost_of(rule, model, [(small, 10), (large, 1)])
    assert cost.kept == 1 and cost.products == 2
    assert cost.flop == pytest.approx((11 * large.flop) / (10 * small.flop + large.flop))
    assert cost.seconds > 2 and not cost.is_extrapolated
    assert gemm_rules.cost_of(gemm_rules.MI300X_NOTE, model, [(small, 1)]).is_extrapolated


def test_a_workload_is_all_flop_over_all_time(measured) -> None:
    gemms = [Gemm(name="a", m=128, n=256, k=64, count=3), Gemm(name="b", m=64, n=64, k=64)]
    products = [Product(m=128, n=256, k=64), Product(m=128, n=64, k=256, layout="nn"), Product(m=256, n=64, k=128, layout="tn"),
                *(Product(m=64, n=64, k=64, layout=layout) for layout in ("nt", "nn", "tn"))]  # fmt: skip
    score = workload_score(measured(products), gemms)
    assert score is not None
    counted = [(p, 3 if p.m != p.n else 1) for p in products]
    together = sum(p.flop * c for p, c in counted) / sum(seconds(p) * c for p, c in counted)
    assert score.together == pytest.approx(together) and score.best > score.together
    assert workload_score(measured(products[:-1]), gemms) is None


def test_alignment_is_the_power_of_two_that_divides() -> None:
    assert [alignment(size) for size in (1, 6, 32, 96, 4096)] == [0, 1, 5, 5, 7]


def test_random_shapes_stay_in_range_and_repeat() -> None:
    first, again = drawn(50, 5), drawn(50, 5)
    assert first == again and first != drawn(50, 6)
    assert all(60 <= p.m <= 2112 and p.flop <= 2.0 * 2048**3 for p in first)
    assert any(p.n % 8 for p in first) and {p.layout for p in first} == {"nt", "nn", "tn"}
