"""Packing into buckets, compared with the buckets that torch's own reducer builds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mi300bench.errors import PlanError
from mi300bench.fit.packing import bucket_bytes, caps_in_bytes, pack
from mi300bench.units import MIB

SIZES = st.lists(st.integers(min_value=4, max_value=8 * MIB), min_size=1, max_size=40)
CAPS = st.one_of(
    st.just("default"),
    st.floats(min_value=0.25, max_value=30),
    st.lists(st.floats(min_value=0.25, max_value=30), min_size=1, max_size=4),
)


@given(SIZES, CAPS)
def test_every_gradient_is_in_one_bucket_in_order(sizes: list[int], caps) -> None:
    buckets = pack(sizes, caps)
    assert [index for bucket in buckets for index in bucket] == list(range(len(sizes)))
    assert sum(bucket_bytes(sizes, caps)) == sum(sizes)


@given(SIZES, st.floats(min_value=0.25, max_value=30))
def test_a_bucket_closes_with_the_gradient_that_fills_it(sizes: list[int], cap: float) -> None:
    limit = int(cap * MIB)
    for bucket in pack(sizes, cap)[:-1]:
        total = sum(sizes[index] for index in bucket)
        assert total >= limit > total - sizes[bucket[-1]]


def test_caps_are_mebibytes_and_the_default_has_a_small_first_bucket() -> None:
    assert caps_in_bytes("default") == (MIB, 25 * MIB)
    assert caps_in_bytes(0.5) == (MIB // 2,)
    assert caps_in_bytes([1, 50]) == (MIB, 50 * MIB)
    with pytest.raises(PlanError):
        caps_in_bytes("large")


@pytest.mark.slow
@pytest.mark.torch
def test_packing_equals_the_buckets_that_ddp_rebuilds() -> None:
    from mi300bench.measurement import plans
    from mi300bench.runner.launch import ProcessWorker
    from mi300bench.schema.plan import Stop
    from mi300bench.schema.record import World

    world = World(device="cpu", ranks=2, threads=1)
    stop = Stop(min_samples=3, max_seconds=0.1, warmup_seconds=0.0, min_warmup_calls=2)
    params = {"preset": "tiny", "data.seq_len": 16, "data.micro_batch": 1}
    worker = ProcessWorker(world, {})
    try:
        timeline = worker.measure(plans.point("zaya1.backward", params, world, stop=stop)).series
        sizes = [int(size) for size in timeline["parameter_bytes"]]
        for caps in ("default", 0.1, 0.5, 1.0, 100.0, [0.1, 0.5], [0.05, 1.0, 0.2]):
            text = (
                caps
                if isinstance(caps, str)
                else ",".join(map(str, caps if isinstance(caps, list) else [caps]))
            )
            step = worker.measure(
                plans.point("zaya1.step", params | {"ddp.bucket_cap_mb": text}, world, stop=stop)
            )
            assert step.series["bucket_bytes"] == bucket_bytes(sizes, caps), caps
    finally:
        worker.close()
