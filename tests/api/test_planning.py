"""Seconds of a planned step from curves that JAX measured; no curve is made up."""

import pytest
from mi300bench.errors import PlanError, RecordError
from mi300bench.schema.record import Work, World
from mi300bench.strategies.mesh import compile
from mi300bench.strategies.mesh.compile import Plan, measured_seconds, plan_all
from mi300bench.trainers import registry


@pytest.fixture
def plan() -> Plan:
    config = registry.module("lora405b", "config").override_all(
        registry.preset_config("lora405b", "70b"),
        {"mesh.mp": 4, "data.batch": 8, "data.seq_len": 64},
    )
    found = {
        "flop": 1e15,
        "received": {},
        "arguments": 1.0,
        "output": 1.0,
        "alias": 1.0,
        "temp": 2.0,
    }
    return Plan(config=config, found=found)


@pytest.fixture
def curves(make_record):
    found = [
        make_record(
            "jax.gemm",
            params={"m": m, "dtype": "bfloat16"},
            samples=(took,) * 5,
            work=Work(flop=1e12),
        )
        for m, took in ((1, 0.001), (2, 0.002), (3, 0.004))
    ]
    return found + [
        make_record(
            "jax.collective.all_reduce", params={"bytes": size, "dtype": "float32"}, samples=(1e-5 + size / 1e10,) * 5,
            work=Work(message_bytes=size), world=World(ranks=4, framework="jax"), id=f"c{size}",
        )
        for size in (2**16, 2**20, 2**24, 2**27)
    ]  # fmt: skip


def test_seconds_come_from_the_curves_and_name_them(plan: Plan, curves) -> None:
    seconds, evidence = measured_seconds("lora405b", plan, curves)
    # 5 all-reduces in each of 80 layers of 512 tokens x 8192 x 2 bytes at 10 GB/s; a layer computed again costs half as much more.
    wire = 5 * 80 * (1e-5 + 512 * 8192 * 2 / 1e10)
    flop = 1.5 * registry.module("lora405b", "shapes").flop_per_token(plan.config) * 512 / 4
    assert seconds.mid == pytest.approx(flop / 5e14 + wire, rel=0.03)
    assert max(flop / 1e15, wire / 1.5) <= seconds.low < seconds.mid < seconds.high
    assert set(evidence) == {record.id for record in curves}


def test_a_missing_curve_says_which_sweep_measures_it(plan: Plan, curves) -> None:
    for left, said in (
        ("jax.gemm", "product of JAX"),
        ("jax.collective.all_reduce", "all_reduce among 4 devices"),
    ):
        with pytest.raises(RecordError, match=said) as caught:
            measured_seconds(
                "lora405b", plan, [record for record in curves if record.probe != left]
            )
        assert "sweep run jax" in caught.value.hint


def test_fits_is_yes_under_the_bound_no_over_the_arguments_and_perhaps_between(plan: Plan) -> None:
    assert [plan.fits(limit) for limit in (3.0, 2.0, 0.5)] == ["yes", "perhaps", "no"]
    assert compile.memory_bytes() == 206_141_652_992


def test_what_cannot_be_planned_is_named() -> None:
    with pytest.raises(PlanError, match="zaya1 cannot be planned"):
        list(plan_all("zaya1", []))
