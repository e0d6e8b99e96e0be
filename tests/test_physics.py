import pytest
from mi300bench import physics
from mi300bench.errors import PlanError


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [
        ("all_reduce", 8, 1.75),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 2, 0.5),
        ("broadcast", 8, 1.0),
    ],
)
def test_busbw_factors_are_those_of_nccl_tests(op: str, ranks: int, factor: float) -> None:
    assert physics.busbw_factor(op, ranks) == factor


def test_an_unknown_operation_lists_the_known() -> None:
    with pytest.raises(PlanError) as caught:
        physics.busbw("all_dance", 1, 1, 2)
    assert "all_reduce" in caught.value.hint


def test_algbw_and_busbw_of_a_known_run() -> None:
    # 1 GB in 10 ms among 8 ranks: algbw 100 GB/s, busbw 175 GB/s.
    assert physics.algbw(1e9, 0.01) == pytest.approx(1e11)
    assert physics.busbw("all_reduce", 1e9, 0.01, 8) == pytest.approx(1.75e11)


def test_the_nic_carries_the_part_of_a_ring_that_leaves_the_node() -> None:
    # 2 nodes of 8: one link in fifteen crosses; all_to_all sends half of everything across.
    assert physics.nic_rate("all_reduce", 350e9, nodes=2, ranks=16) == pytest.approx(350e9 / 15)
    assert physics.nic_rate("all_to_all", 45e9, nodes=2, ranks=16) == pytest.approx(45e9 * 8 / 15)


def test_goodput_of_a_gigabit() -> None:
    assert physics.tcp_goodput(1e9) == pytest.approx(119.55e6, rel=1e-3)


def test_gloo_waits_for_the_receiver_where_both_sides_send() -> None:
    assert physics.hops("all_reduce", 2, backend="gloo") == 2
    assert physics.hops("all_gather", 2, backend="gloo") == 2
    assert physics.hops("all_gather", 2, backend="nccl") == 1
    assert physics.hops("send_recv", 2, backend="gloo") == 1


def test_mfu_of_an_unknown_peak_is_unknown() -> None:
    assert physics.model_flops_utilisation(1e12, 1.0, None) is None
    assert physics.model_flops_utilisation(1e12, 1.0, 2e12) == 0.5
