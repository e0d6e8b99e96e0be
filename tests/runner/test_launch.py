"""Worker processes that are killed, hang or fail, each within a time limit."""

import time

import pytest
from mi300bench.runner.launch import PointFailed, ProcessWorker, WorkerLost
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.record import Outcome, World

pytestmark = pytest.mark.torch
QUICK = Stop(min_samples=3, max_seconds=0.1, warmup_seconds=0.0)


def point(name: str, ranks: int = 1, **params) -> Point:
    world = World(device="cpu", ranks=ranks, threads=1)
    return Point(
        probe=name,
        method=1,
        target=f"tests.runner.dying:{name}",
        params=params,
        world=world,
        stop=QUICK,
    )


def test_one_worker_survives_failures_and_wrong_answers() -> None:
    worker = ProcessWorker(World(device="cpu", ranks=1, threads=1), {})
    try:
        with pytest.raises(PointFailed, match=r"MemoryError: .*4 TiB"):
            worker.measure(point("Raises"))
        assert worker.measure(point("Lies")).outcome is Outcome.WRONG_ANSWER
        record = worker.measure(point("Quiet"))
        assert record.outcome is Outcome.OK and record.conditions["framework"] == "torch"
    finally:
        worker.close()


def test_a_killed_worker_is_named() -> None:
    worker = ProcessWorker(World(device="cpu", ranks=1, threads=1), {})
    try:
        with pytest.raises(WorkerLost, match=r"rank 0 .*SIGKILL"):
            worker.measure(point("Dies", rank=0))
    finally:
        worker.close()


def test_a_hang_ends_within_the_limit() -> None:
    worker = ProcessWorker(World(device="cpu", ranks=1, threads=1), {}, limit_s=2.0)
    start = time.monotonic()
    try:
        with pytest.raises(WorkerLost, match=r"\b2 s\b.*Hangs"):
            worker.measure(point("Hangs"))
    finally:
        worker.close()
    assert time.monotonic() - start < 25


def test_a_rank_killed_in_a_collective_ends_all_ranks_and_is_named() -> None:
    worker = ProcessWorker(World(device="cpu", ranks=2, threads=1), {}, limit_s=60.0)
    pids = [rank.pid for rank in worker._ranks]
    start = time.monotonic()
    try:
        with pytest.raises(WorkerLost, match=r"rank 1 \(pid \d+ on .*SIGKILL"):
            worker.measure(point("Dies", ranks=2, rank=1))
    finally:
        worker.close()
    assert time.monotonic() - start < 40
    assert len(pids) == 2 and not any(_alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    from pathlib import Path

    try:
        return "mi300bench.runner" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
