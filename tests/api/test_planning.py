"""Seconds of a planned step from curves that JAX measured; no curve is made up."""

import pytest
from mi300bench.api.planning import Planned, PlannedStep
from mi300bench.errors import PlanError, RecordError
from mi300bench.published.figures import published_device
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Work, World
from mi300bench.strategies.mesh.compile_step import CompiledStep, compile_all, require_planner
from mi300bench.strategies.mesh.planning import seconds_from_curves
from mi300bench.trainers.registry import spec_of

pytestmark = pytest.mark.slow

LORA405B = spec_of("lora405b")
MEMORY_OF_AN_MI300X = 206_141_652_992


@pytest.fixture
def step() -> CompiledStep:
    config = LORA405B.override(
        LORA405B.preset("70b"), {"mesh.mp": 4, "data.batch": 8, "data.seq_len": 64}
    )
    settings = LORA405B.settings(config, 1)
    figures = {
        "flop": 1e15,
        "received": {},
        "arguments": 1.0,
        "output": 1.0,
        "alias": 1.0,
        "temp": 2.0,
    }
    return CompiledStep(
        config=config,
        mesh=settings.mesh,
        batch=settings.batch,
        precision=settings.precision,
        figures=figures,
    )


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
            "jax.collective.all_reduce",
            params={"bytes": size, "dtype": "float32"},
            samples=(1e-5 + size / 1e10,) * 5,
            work=Work(message_bytes=size),
            world=World(ranks=4, framework="jax"),
            id=f"c{size}",
        )
        for size in (2**16, 2**20, 2**24, 2**27)
    ]


def test_seconds_come_from_the_curves_and_name_them(step: CompiledStep, curves) -> None:
    seconds, evidence = seconds_from_curves(LORA405B, step, curves)
    # 5 all-reduces in each of 80 layers of 512 tokens x 8192 x 2 bytes at 10 GB/s; a layer that is
    # computed again costs half as much more.
    wire = 5 * 80 * (1e-5 + 512 * 8192 * 2 / 1e10)
    flop = 1.5 * LORA405B.describe(step.config).flop_per_token * 512 / 4
    assert seconds.mid == pytest.approx(flop / 5e14 + wire, rel=0.03)
    assert max(flop / 1e15, wire / 1.5) <= seconds.low < seconds.mid < seconds.high
    assert set(evidence) == {record.id for record in curves}


def test_a_missing_curve_says_which_sweep_measures_it(step: CompiledStep, curves) -> None:
    for left_out, named in (
        ("jax.gemm", "product of JAX"),
        ("jax.collective.all_reduce", "all_reduce among 4 devices"),
    ):
        rest = [record for record in curves if record.probe != left_out]
        with pytest.raises(RecordError, match=named) as caught:
            seconds_from_curves(LORA405B, step, rest)
        assert "sweep run jax" in caught.value.hint


def test_fits_is_yes_under_the_bound_no_over_the_arguments_and_perhaps_between(
    step: CompiledStep,
) -> None:
    assert [step.fits(limit) for limit in (3.0, 2.0, 0.5)] == ["yes", "perhaps", "no"]


def test_a_device_has_its_published_memory() -> None:
    planned = Planned(preset="70b", recompute="layers", device=published_device("mi300x"), rows=())
    assert planned.limit == MEMORY_OF_AN_MI300X


def test_tokens_and_prices_follow_from_the_seconds(step: CompiledStep) -> None:
    row = PlannedStep(step=step, seconds=Interval(low=1.0, mid=2.0, high=4.0))
    assert row.tokens_per_second == (128.0, 512.0)
    # Four devices at 3.6 an hour are 0.004 a second, for 512 tokens.
    assert row.prices(3.6) == pytest.approx((0.004e6 / 512, 0.016e6 / 512))


def test_what_cannot_be_planned_is_named() -> None:
    zaya1 = spec_of("zaya1")
    for refuse in (lambda: require_planner(zaya1), lambda: list(compile_all(zaya1, []))):
        with pytest.raises(PlanError, match="zaya1 cannot be planned"):
            refuse()
