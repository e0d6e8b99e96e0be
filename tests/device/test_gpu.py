"""The contract of probes on a GPU, with ROCm or CUDA. Skipped without a GPU.

pytest tests/device -rs
"""

import pytest
from mi300bench import physics, stats
from mi300bench.hw.facts import find_device
from mi300bench.measurement import plans
from mi300bench.measurement.local_topology import default_ranks, detect_device
from mi300bench.runner.launch import ProcessWorker
from mi300bench.schema.plan import Stop
from mi300bench.schema.record import Outcome, World
from mi300bench.units import GIB, MIB

pytestmark = [pytest.mark.device, pytest.mark.torch]
STOP = Stop(min_samples=7, max_seconds=2.0)


@pytest.fixture(scope="module")
def alone():
    worker = ProcessWorker(World(device=detect_device(), ranks=1), {})
    yield worker
    worker.close()


def measured(worker, point):
    record = worker.measure(point)
    assert record.outcome is Outcome.OK, record.reason
    return record


def published_facts(worker):
    device = worker.describe()
    return find_device(device["name"], arch=device["arch"], compute_units=device["compute_units"])


def test_the_device_is_described(alone) -> None:
    device = alone.describe()
    assert device["kind"] in ("rocm", "cuda") and device["memory_bytes"] > GIB and device["arch"]
    assert device["cache_bytes"] is None or device["cache_bytes"] >= 4 * MIB


def test_memory_stays_under_the_published_peak_and_variants_agree(alone) -> None:
    world = World(device=detect_device(), ranks=1)
    facts = published_facts(alone)
    rates = {}
    for point in plans.memory_points(["copy"], [2 * GIB], world, stop=STOP):
        record = measured(alone, point)
        rates[point.params["variant"]] = stats.bandwidth(
            record.work, stats.seconds_per_call(record)
        )
    assert max(rates.values()) / min(rates.values()) < 1.5
    if facts is not None:
        assert max(rates.values()) <= facts.facts["memory_bandwidth"].value


def test_products_are_right_and_under_the_peak(alone) -> None:
    world = World(device=detect_device(), ranks=1)
    facts = published_facts(alone)
    for point in plans.gemm_points(
        [(4096, 4096, 4096)], world, layouts=["nn", "nt", "tn"], stop=STOP
    ):
        record = measured(alone, point)
        rate = stats.flop_rate(record.work, stats.seconds_per_call(record))
        assert facts is None or rate <= facts.facts["bfloat16"].value


def test_a_cold_product_is_not_faster_than_a_hot_one(alone) -> None:
    world = World(device=detect_device(), ranks=1)
    seconds = {}
    for cache in ("cold", "hot"):
        (point,) = plans.gemm_points([(512, 512, 512)], world, cache=cache, stop=STOP)
        seconds[cache] = stats.seconds_per_call(measured(alone, point))
    assert seconds["cold"] >= 0.95 * seconds["hot"]


def test_a_zaya1_step_trains(alone) -> None:
    world = World(device=detect_device(), ranks=1)
    params = {"preset": "tiny", "data.seq_len": 64, "data.micro_batch": 2}
    for probe in ("zaya1.backward", "zaya1.step"):
        measured(alone, plans.point(probe, params, world, stop=STOP))


def test_collectives_are_right_among_all_devices() -> None:
    kind = detect_device()
    ranks = default_ranks(kind)
    if ranks < 2:
        pytest.skip("collectives need at least two GPUs")
    world = World(device=kind, ranks=ranks)
    worker = ProcessWorker(world, {})
    try:
        for point in plans.collective_points(
            physics.COLLECTIVES, [1024, 64 * MIB], [world], stop=STOP
        ):
            measured(worker, point)
    finally:
        worker.close()
