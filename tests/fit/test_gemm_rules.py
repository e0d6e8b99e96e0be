"""Rules of thumb against a made-up device in which they were planted."""

import pytest
from mi300bench.fit import gemm_rules
from mi300bench.fit.gemm import Product, fit_gemm
from mi300bench.measurement.gemm_study import read_rules, rule_lines
from tests.fit.made_up_gemms import AXES, drawn, seconds


def test_the_rules_planted_in_the_device_come_out(measured) -> None:
    best = Product(m=2048, n=2048, k=2048)
    plateau = best.flop / seconds(best)
    groups = measured([*rule_lines(best, AXES), *drawn(40, 1)])
    rules = {(rule.name, rule.axis): rule for rule in read_rules(best, AXES, groups, plateau)}
    # K / (K + 40) reaches 95 % of its value at 2048 from 545 on: of the sizes measured, at 1024.
    assert rules["least", "k"].value == 1024 and "512" in rules["least", "k"].sentence
    assert rules["alignment", "n"].value == 16 and "67%" in rules["alignment", "n"].sentence
    assert rules["alignment", "k"].value == 1
    assert rules["tile", "m"].value == 64 and rules["tile", "n"].value is None
    assert rules["least", "n"].value == 64
    assert all(rule.evidence for rule in rules.values())
    assert rules["flop", ""].value < best.flop


@pytest.mark.slow
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
