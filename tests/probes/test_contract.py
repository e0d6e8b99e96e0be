"""The contract of every probe, on small points on the CPU: its work, its answer and its times."""

from types import SimpleNamespace
from typing import Any

import pytest
from mi300bench.errors import PlanError
from mi300bench.measurement import plans
from mi300bench.probes.catalog import CATALOG, entry, every_probe
from mi300bench.runner.launch import ProcessWorker
from mi300bench.schema.conditions import NAMES
from mi300bench.schema.doubt import FootprintInCache
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.record import Outcome, Scalar, World
from mi300bench.trainers.registry import names, spec_of

pytestmark = pytest.mark.torch
QUICK = Stop(min_samples=3, max_seconds=0.01, warmup_seconds=0.0)
TRAINING: dict[str, Scalar] = {"preset": "tiny", "data.seq_len": 16, "data.micro_batch": 1}


ROWS: dict[str, Scalar] = {"bytes": 65536, "row_bytes": 256, "dtype": "float32", "variant": "op"}
SINGLE: dict[str, dict[str, Scalar]] = {
    "memory.gather": ROWS,
    "memory.scatter": ROWS,
    "lora405b.step": {
        "preset": "tiny",
        "data.batch": 2,
        "data.seq_len": 16,
        "precision": "float32",
        "compute.remat": "dots",
    },
}


def params(probe: str) -> list[dict[str, Scalar]]:
    if probe in SINGLE:
        return [SINGLE[probe]]
    if probe.startswith("memory."):
        return [
            {"bytes": 65536, "dtype": dtype, "variant": "op"} for dtype in ("float32", "bfloat16")
        ]
    if probe == "gemm":
        # Cold products of this size flush the cache, which takes long; those of 256 take turns.
        base: dict[str, Scalar] = {"m": 33, "n": 17, "k": 65, "inputs": "normal"}
        grid = [
            base | {"layout": a, "dtype": d, "cache": "hot"}
            for a in ("nn", "nt", "tn")
            for d in ("bfloat16", "float16", "float32")
        ]
        turns = [base | {"m": 256, "n": 256, "k": 256, "layout": "nt", "dtype": "float32"}]
        flushed = [base | {"layout": "nt", "dtype": "float32", "cache": "cold"}]
        return [
            *flushed,
            *turns,
            *grid,
            {"m": 32, "n": 16, "k": 64, "layout": "nt", "dtype": "float8_e4m3"},
        ]
    if probe == "gemm.experts":
        rows: dict[str, Scalar] = {"m": 40, "n": 24, "k": 32, "experts": 4, "dtype": "float32"}
        return [
            rows | {"way": way, "skew": skew}
            for way in ("grouped", "padded", "loop")
            for skew in (1.0, 2.5, 4.0)
        ]
    if probe == "overlap":
        return [
            {"bytes": 65536, "m": 64, "n": 64, "k": 64, "dtype": "float32", "inflight": n}
            for n in (1, 2)
        ]
    if probe == "collective.all_reduce":
        return [{"bytes": 65536, "dtype": "float32", "inflight": n} for n in (1, 2, 3)] + [
            {"bytes": 4, "dtype": "bfloat16"}
        ]
    if probe.startswith("collective."):
        return [{"bytes": size, "dtype": d} for size in (4, 65536) for d in ("float32", "bfloat16")]
    if probe == "jax.gemm":
        base = {"m": 33, "n": 17, "k": 65}
        return [
            base | {"layout": a, "dtype": d, "cache": "cold" if a == "nn" else "hot"}
            for a in ("nn", "nt", "tn")
            for d in ("bfloat16", "float32")
        ]
    if probe.startswith("jax."):
        return [{"bytes": 65536, "dtype": dtype} for dtype in ("float32", "bfloat16")]
    return [TRAINING | ({"ddp.bucket_cap_mb": "0.5"} if probe.endswith("step") else {})]


def is_of_ranks(probe: str) -> bool:
    """Return whether a probe is of a trainer whose ranks exchange gradients."""
    trainer = probe.partition(".")[0]
    return trainer in names() and spec_of(trainer).data_parallel is not None


def points(ranks: int) -> list[Point]:
    world = World(device="cpu", ranks=ranks, threads=1)
    torch_probes = {probe: e for probe, e in every_probe().items() if e.needs == "torch"}
    chosen = [
        probe
        for probe, e in torch_probes.items()
        if (e.ranks > 1 or is_of_ranks(probe)) == (ranks > 1)
    ]
    return [
        plans.point(probe, each, world, stop=QUICK) for probe in chosen for each in params(probe)
    ]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_probe_gives_a_right_answer_and_declares_its_work(ranks: int) -> None:
    worker = ProcessWorker(World(device="cpu", ranks=ranks, threads=1), {})
    try:
        for point in points(ranks):
            record = worker.measure(point)
            assert record.outcome is Outcome.OK, (point, record.reason)
            assert len(record.samples) >= 3 and record.calls_per_sample >= 1 and record.warmup
            work = record.work
            assert work.bytes_read + work.bytes_written + work.flop + work.message_bytes > 0
            assert len(record.rank_samples) == (ranks if ranks > 1 else 0)
            assert record.samples == (
                tuple(map(max, zip(*record.rank_samples, strict=True)))
                if ranks > 1
                else record.samples
            )
            assert record.conditions["framework"] == "torch" and record.device
            assert set(record.conditions) <= set(NAMES)
    finally:
        worker.close()


@pytest.mark.parametrize("ranks", [1, 4])
def test_every_jax_probe_runs_in_one_process_with_a_device_per_rank(ranks: int) -> None:
    pytest.importorskip("jax")
    world = World(device="cpu", ranks=ranks, framework="jax")
    worker = ProcessWorker(world, {})
    try:
        for probe, e in every_probe().items():
            if e.needs != "jax" or (e.ranks > 1) != (ranks > 1):
                continue
            for each in params(probe):
                record = worker.measure(plans.point(probe, each, world, stop=QUICK))
                assert record.outcome is Outcome.OK, (probe, each, record.reason)
                assert (
                    record.conditions["framework"] == "jax" and record.conditions["blas"] == "xla"
                )
                assert record.world.framework == "jax" and not record.rank_samples
                assert record.work.flop + record.work.bytes_read + record.work.message_bytes > 0
                assert set(record.conditions) <= set(NAMES)
    finally:
        worker.close()


def probe_of(name: str, point_params: dict[str, Scalar], cache_bytes: int = 2**20) -> Any:
    import importlib

    module, cls = entry(name).target.split(":")
    device = SimpleNamespace(
        torch_name="cpu",
        backend="gloo",
        cache_bytes=cache_bytes,
        flush_bytes=2 * cache_bytes,
        is_asynchronous=False,
        fp8="float8_e4m3fn",
    )
    probe = getattr(importlib.import_module(module), cls)(
        point_params, SimpleNamespace(rank=0, ranks=1, device=device)
    )
    probe.prepare()
    return probe


@pytest.mark.parametrize(
    "name", [n for n in CATALOG if n.startswith("memory.") or n in ("gemm", "gemm.experts")]
)
def test_a_corrupted_result_is_a_wrong_answer(name: str) -> None:
    for point_params in params(name)[:1]:
        probe = probe_of(name, point_params)
        probe.call()
        assert probe.check() == ""
        damaged = next(
            getattr(probe, field) for field in ("total", "c", "b", "a") if hasattr(probe, field)
        )
        damaged.add_(1.0 if name != "gemm" else 100.0)
        assert probe.check() != ""


def test_bytes_are_counted_as_stream_counts_them() -> None:
    size = 65536
    for name, factor in (
        ("read", 1),
        ("write", 1),
        ("copy", 2),
        ("scale", 2),
        ("add", 3),
        ("triad", 3),
    ):
        work = probe_of(
            f"memory.{name}", {"bytes": size, "dtype": "float32", "variant": "op"}
        ).work()
        assert work.bytes_read + work.bytes_written == factor * size


def test_a_footprint_in_the_cache_has_a_doubt() -> None:
    point_params: dict[str, Scalar] = {"bytes": 65536, "dtype": "float32", "variant": "op"}
    assert probe_of("memory.copy", point_params, cache_bytes=2**20).doubts() == (
        FootprintInCache(footprint_bytes=2 * 65536, cache_bytes=2**20),
    )
    assert probe_of("memory.copy", point_params, cache_bytes=1024).doubts() == ()


def test_the_rows_of_experts_add_up_and_the_first_expert_has_most() -> None:
    from mi300bench.probes.experts import group_rows

    for rows, experts, skew in (
        (512, 8, 1.0),
        (512, 8, 4.0),
        (37, 5, 2.0),
        (6, 6, 6.0),
        (5, 1, 1.0),
        (100, 4, 9.0),
    ):
        groups = group_rows(rows, experts, skew)
        assert sum(groups) == rows and len(groups) == experts and min(groups) >= 0
        fullest = min(rows, max(round(rows / experts * skew), -(-rows // experts)))
        assert groups[0] == max(groups) == fullest


def test_a_multiply_add_of_a_gemm_is_two_flop() -> None:
    point_params = params("gemm")[0]
    assert probe_of("gemm", point_params).work().flop == 2 * 33 * 17 * 65


@pytest.mark.parametrize(
    ("name", "point_params"),
    [
        ("memory.copy", {"bytes": 64, "dtype": "float32", "variant": "magic"}),
        ("memory.copy", {"bytes": 1, "dtype": "float32", "variant": "op"}),
        ("memory.gather", {"bytes": 64, "dtype": "float32", "variant": "op", "row_bytes": 128}),
        ("gemm", {"m": 1, "n": 1, "k": 1, "layout": "tt", "dtype": "float32"}),
        ("gemm", {"m": 16, "n": 16, "k": 16, "layout": "nn", "dtype": "float8_e4m3"}),
        (
            "gemm.experts",
            {"m": 4, "n": 4, "k": 4, "experts": 2, "dtype": "float32", "way": "magic"},
        ),
        (
            "gemm.experts",
            {"m": 4, "n": 4, "k": 4, "experts": 2, "dtype": "float32", "way": "loop", "skew": 0.5},
        ),
    ],
)
def test_invalid_parameters_are_refused(name: str, point_params: dict[str, Scalar]) -> None:
    with pytest.raises(PlanError):
        probe_of(name, point_params)


def test_an_unknown_probe_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(PlanError) as caught:
        entry("memory.teleport")
    assert "memory.copy" in caught.value.hint


def test_a_compiled_kernel_gives_the_same_answer() -> None:
    probe = probe_of("memory.triad", {"bytes": 65536, "dtype": "float32", "variant": "compiled"})
    probe.call()
    assert probe.check() == ""
