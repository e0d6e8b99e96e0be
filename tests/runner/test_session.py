from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import pytest
from mi300bench.runner.launch import PointFailed, WorkerLost
from mi300bench.runner.session import Provenance, Session, grouped
from mi300bench.schema.doubt import FewPasses
from mi300bench.schema.plan import Plan, Point
from mi300bench.schema.record import Measurement, Outcome, World


def point(number: int, **parts) -> Point:
    return Point(probe="fake", method=1, target="none:None", params={"n": number}, **parts)


class FakeWorker:
    """Measures at once, but dies or fails at given points."""

    opened: ClassVar[list["FakeWorker"]] = []

    def __init__(self, world: World, environment: Mapping[str, str], *, dies=(), fails=()) -> None:
        self.dies, self.fails, self.seen, self.closed = dies, fails, [], False
        FakeWorker.opened.append(self)

    def measure(self, point: Point, *, within_s: float | None = None) -> Measurement:
        self.seen.append(point.params["n"])
        if point.params["n"] in self.dies:
            raise WorkerLost("rank 1 (pid 7 on here) ended")
        if point.params["n"] in self.fails:
            raise PointFailed("RuntimeError: no")
        return Measurement(
            probe="fake",
            method=1,
            params=point.params,
            outcome=Outcome.OK,
            samples=(1.0,) * 5,
            point=point.key,
        )

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def session():
    FakeWorker.opened = []

    def make(records: list, *, dies=(), fails=(), **parts) -> Session:
        return Session(
            open_worker=lambda world, env: FakeWorker(world, env, dies=dies, fails=fails),
            sink=records.append,
            provenance=Provenance(run="r1", node="n1"),
            **parts,
        )

    return make


def test_every_point_gives_a_record_in_every_pass_and_every_pass_a_fresh_worker(session) -> None:
    records: list[Measurement] = []
    tally = session(records).run(Plan(question="?", points=(point(1), point(2)), passes=3))
    assert tally.ok == 6 and len(FakeWorker.opened) == 3
    assert [(r.params["n"], r.pass_index) for r in records] == [
        (1, 0),
        (2, 0),
        (1, 1),
        (2, 1),
        (1, 2),
        (2, 2),
    ]
    assert all(worker.closed for worker in FakeWorker.opened)


def test_a_crash_costs_one_point_and_the_worker_is_replaced(session) -> None:
    records: list[Measurement] = []
    tally = session(records, dies={2}).run(
        Plan(question="?", points=tuple(map(point, (1, 2, 3))), passes=1)
    )
    assert [record.outcome for record in records] == [Outcome.OK, Outcome.FAILED, Outcome.OK]
    assert "rank 1" in records[1].reason and len(FakeWorker.opened) == 2 and tally.failed == 1


def test_a_failure_keeps_the_worker(session) -> None:
    records: list[Measurement] = []
    session(records, fails={1}).run(Plan(question="?", points=(point(1), point(2)), passes=1))
    assert len(FakeWorker.opened) == 1 and records[0].reason == "RuntimeError: no"


def test_points_in_done_are_not_measured_again(session) -> None:
    records: list[Measurement] = []
    plan = Plan(question="?", points=(point(1), point(2)), passes=2)
    session(records).run(plan, done={(plan.points[0].key, 0), (plan.points[1].key, 1)})
    assert [(r.params["n"], r.pass_index) for r in records] == [(2, 0), (1, 1)]


def test_the_budget_leaves_points_out_and_counts_them(session) -> None:
    records: list[Measurement] = []
    tally = session(records, deadline=2, now=lambda: len(records)).run(
        Plan(question="?", points=tuple(map(point, range(5))), passes=1)
    )
    assert tally.ok == 2 and tally.left_out == 3


def test_an_interleaved_plan_gives_each_point_a_process_and_reverses_the_order(session) -> None:
    records: list[Measurement] = []
    session(records).run(
        Plan(question="?", points=(point(1), point(2)), passes=2, interleaved=True)
    )
    assert [r.params["n"] for r in records] == [1, 2, 2, 1] and len(FakeWorker.opened) == 4


def test_points_of_another_world_or_environment_get_another_worker() -> None:
    points = [
        point(1),
        point(2, world=World(ranks=2)),
        point(3),
        point(4, environment={"NCCL_ALGO": "Tree"}),
    ]
    assert [[p.params["n"] for p in group] for group in grouped(points)] == [[1, 3], [2], [4]]


def test_few_passes_are_a_doubt(session) -> None:
    records: list[Measurement] = []
    session(records).run(Plan(question="?", points=(point(1),), passes=1))
    assert records[0].doubts == (FewPasses(passes=1),)


def test_a_point_is_the_same_point_whatever_its_stop_rule() -> None:
    from mi300bench.schema.plan import Stop

    assert point(1).key == replace(point(1), stop=Stop(max_seconds=99)).key != point(2).key
