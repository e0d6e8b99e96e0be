import pytest
from mi300bench.errors import PlanError
from mi300bench.measurement import plans
from mi300bench.schema.model import Gemm
from mi300bench.schema.record import World


def test_a_repeated_point_counts_once() -> None:
    twice = plans.memory_points(["copy"], [1024, 1024], World(), variants=["op"])
    assert len(plans.plan("?", twice, passes=1).points) == 1


def test_no_points_and_too_many_are_refused() -> None:
    points = plans.memory_points(["copy"], [1024, 2048], World(), variants=["op"])
    with pytest.raises(PlanError):
        plans.plan("?", [], passes=1)
    with pytest.raises(PlanError, match=r"2 points.* 1\b"):
        plans.plan("?", points, passes=1, most=1)


def test_a_point_has_the_framework_of_its_probe() -> None:
    assert plans.point("jax.gemm", {}, World()).world.framework == "jax"
    assert plans.point("gemm", {}, World()).world.framework == "torch"


def test_too_few_ranks_are_refused_with_the_fewest_that_can_be_measured() -> None:
    with pytest.raises(PlanError) as caught:
        plans.point("overlap", {}, World(ranks=1))
    assert caught.value.hint == "--ranks 2"


def test_gather_and_scatter_have_rows_that_fit() -> None:
    points = plans.memory_points(
        ["gather", "copy"], [1024], World(), variants=["op"], row_bytes=[256, 4096]
    )
    assert [point.params.get("row_bytes") for point in points] == [256, None]


@pytest.mark.parametrize(
    ("patterns", "variants"), [(["teleport"], ["op"]), (["copy"], ["handwritten"])]
)
def test_an_unknown_name_lists_the_known(patterns: list[str], variants: list[str]) -> None:
    with pytest.raises(PlanError) as caught:
        plans.memory_points(patterns, [1024], World(), variants=variants)
    assert "copy" in caught.value.hint or "compiled" in caught.value.hint


def test_a_model_has_both_backward_products_of_each_forward_one() -> None:
    assert plans.model_products([Gemm(name="q", m=512, n=256, k=128)]) == [
        (512, 256, 128, "nt"),
        (512, 128, 256, "nn"),
        (256, 128, 512, "tn"),
    ]
