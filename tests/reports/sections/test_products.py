from dataclasses import replace

import numpy as np
import pytest
from mi300bench.schema.model import Gemm
from mi300bench.schema.record import Measurement, World
from tests.reports.example import gemm

from mi300bench_reports.sections.products import FEWEST_MAPPED, product_map, products


def shapes(make_record, count: int) -> list[Measurement]:
    draw = np.random.default_rng(0)
    sizes = [tuple(int(2 ** draw.uniform(6, 12)) for _ in range(3)) for _ in range(count)]
    return [gemm(make_record, m, n, k, 300e9 * k / (k + 200)) for m, n, k in sizes]


@pytest.mark.slow
def test_the_fastest_shape_comes_first(mi300x) -> None:
    section = products(mi300x)
    assert section is not None and section.table is not None and section.chart
    rates = [float(keys[5]) for keys in section.table.keys]
    assert rates == sorted(rates, reverse=True) and len(rates) == 16
    assert section.table.rows[0][6] == "100%"
    best = 400e12 * 16384 / (16384 + 800)
    assert rates[0] == best and "381 TFLOP/s, 29% of" in section.sentences[0]


def test_each_type_and_number_of_ranks_has_a_best_shape(make_record) -> None:
    alone = gemm(make_record, 64, 64, 64, 1e12)
    busy = replace(alone, world=World(ranks=2, threads=1), id="busy", point="busy")
    section = products([alone, busy])
    assert section is not None and len(section.sentences) == 3
    assert "2 ranks" in section.sentences[1]


def test_what_a_model_s_products_reach_together_needs_every_one_of_them(make_record) -> None:
    model = Gemm(name="up", m=128, n=256, k=512)
    forward = gemm(make_record, 128, 256, 512, 1e12)
    backward = [
        gemm(make_record, 128, 512, 256, 1e12),
        gemm(make_record, 256, 512, 128, 1e12),
    ]
    layouts = [
        replace(record, params={**record.params, "layout": layout}, point=layout, id=layout)
        for record, layout in zip([forward, *backward], ("nt", "nn", "tn"), strict=True)
    ]
    section = products(layouts, [model])
    assert section is not None and "1.00 TFLOP/s, 100% of" in section.sentences[0]
    partial = products(layouts[:2], [model])
    assert partial is not None and "100%" not in partial.sentences[0]


@pytest.mark.slow
def test_a_fit_says_how_far_off_it_is_where_shapes_are_enough(make_record) -> None:
    records = shapes(make_record, 40)
    with_fit, without = products(records), products(records, has_fit=False)
    assert with_fit is not None and without is not None
    assert with_fit.sentences[0].startswith(without.sentences[0])
    assert "(median)" in with_fit.sentences[0] and "(median)" not in without.sentences[0]


def test_the_map_has_the_model_s_own_products(mi300x) -> None:
    own = Gemm(name="q_proj", m=2048, n=4096, k=4096)
    outside = Gemm(name="huge", m=2**20, n=2**20, k=2**20)
    section = product_map(mi300x, [own, outside])
    assert section is not None and "16 shapes" in section.sentences[0]
    assert "q_proj" in section.chart and "huge" not in section.chart
    without = product_map(mi300x, [])
    assert without is not None and without.sentences != section.sentences


def test_few_shapes_make_no_map(mi300x) -> None:
    assert product_map(mi300x[: FEWEST_MAPPED - 1], []) is None
    assert product_map([], []) is None
