"""Which products a request names, and what a file of shapes may hold."""

from pathlib import Path

import pytest
from mi300bench.api.products import (
    ProductRequest,
    measure_products,
    products_of_model,
    read_shapes,
    workload_scores,
)
from mi300bench.errors import PlanError
from mi300bench.measurement.settings import Settings
from mi300bench.schema.model import Gemm
from mi300bench.schema.record import Work


@pytest.mark.parametrize(
    "text",
    ["1 2 3\n\n4 5 6\n", "[[1, 2, 3], [4, 5, 6]]", '[{"m": 1, "n": 2, "k": 3}, [4, 5, 6]]'],
)
def test_a_file_has_shapes_as_lines_or_as_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "shapes").write_text(text)
    assert read_shapes(tmp_path / "shapes") == [(1, 2, 3), (4, 5, 6)]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("1 2\n", "'1', '2'"),
        ("1 2 three\n", "three"),
        ("0 2 3\n", "'0'"),
        ("[[1, 2, 3]", "delimiter"),
        ('[{"m": 1, "n": 2}]', "'k'"),
        ("[17]", "17"),
        ("", "empty"),
    ],
)
def test_what_is_no_list_of_shapes_is_refused(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "shapes"
    path.write_text(text)
    with pytest.raises(PlanError) as caught:
        read_shapes(path)
    assert str(path) in str(caught.value) and named in str(caught.value)
    assert "M N K" in caught.value.hint


def test_a_request_is_a_grid_or_shapes_or_a_model() -> None:
    for parts in (
        {"m": (1,), "model": "zaya1"},
        {"k": (1,), "shapes": [(1, 2, 3)]},
        {"shapes": [(1, 2, 3)], "model": "zaya1"},
    ):
        with pytest.raises(PlanError, match="--shapes and --model"):
            ProductRequest(**parts)


def test_an_axis_that_is_left_out_has_the_sizes_of_the_device() -> None:
    request = ProductRequest(m=(5,), device="cpu")
    assert request.axes == ((5,), (256, 512, 1024, 2048), (256, 512, 1024, 2048))
    assert ProductRequest(device="rocm").axes[0] == (1024, 2048, 4096, 8192)


def test_large_grids_and_models_are_searchable_and_lists_are_not() -> None:
    assert ProductRequest(device="cpu").is_searchable
    assert ProductRequest(device="cpu", model="zaya1").is_searchable
    assert not ProductRequest(device="cpu", m=(64,), n=(64,), k=(64, 128)).is_searchable
    assert not ProductRequest(device="cpu", shapes=[(1, 2, 3)] * 50).is_searchable


def test_the_products_of_a_model_scale_with_its_micro_batch() -> None:
    one, two = (products_of_model("zaya1", preset="tiny", micro_batch=n) for n in (1, 2))
    assert [gemm.name for gemm in one] == [gemm.name for gemm in two]
    assert any(2 * a.m == b.m for a, b in zip(one, two, strict=True))
    with pytest.raises(PlanError, match="--micro-batch"):
        products_of_model("lora405b", micro_batch=1)


def test_the_score_of_a_workload_is_by_data_type(make_record) -> None:
    """Forward and both backward products of 64 x 64 x 64, in a second each."""
    records = [
        make_record(
            "gemm",
            params={"m": 64, "n": 64, "k": 64, "layout": layout, "dtype": dtype},
            work=Work(flop=2.0 * 64**3),
            id=f"{layout}{dtype}",
        )
        for dtype in ("float32", "bfloat16")
        for layout in ("nt", "nn", "tn")[: 3 if dtype == "float32" else 2]
    ]
    gemms = (Gemm(name="only", m=64, n=64, k=64, count=1),)
    scores = workload_scores(records, gemms)
    assert list(scores) == ["float32"], "bfloat16 lacks a product"
    assert scores["float32"].together == scores["float32"].best == 2.0 * 64**3


@pytest.mark.torch
def test_a_list_of_shapes_is_measured_in_each_data_type(tmp_path: Path) -> None:
    request = ProductRequest(
        shapes=[(16, 32, 64)], layouts=("nn",), dtypes=("float32", "bfloat16"), device="cpu"
    )
    measured = measure_products(request, Settings(store=tmp_path, passes=1))
    assert [(r.params["m"], r.params["n"], r.params["k"]) for r in measured.records] == [
        (16, 32, 64)
    ] * 2
    assert {r.params["dtype"] for r in measured.records} == {"float32", "bfloat16"}
