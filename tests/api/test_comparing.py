"""Sides of stores, the odd node with its date, slow ranks and pairs; the exit codes of compare."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from mi300bench.comparison.read_sides import records_of_side
from mi300bench.comparison.sides import dated_changes, side_of, slow_parts, split
from mi300bench.errors import PlanError
from mi300bench.schema.plan import Point
from mi300bench.schema.record import Measurement, Origin, Outcome, World, short_hash
from mi300bench.store.writer import RunWriter

pytestmark = pytest.mark.slow

WEEKS = 6


@pytest.fixture
def fleet(tmp_path: Path, make_record) -> Path:
    """A store of eight nodes over six weeks; n5 takes 6 % longer from the fourth week on."""
    draw = np.random.default_rng(1)
    for node in range(8):
        for week in range(WEEKS):
            with RunWriter(
                tmp_path, node=f"n{node}", header={"plan": "", "passes": 3, "points": 12}
            ) as writer:
                for record in _week(make_record, draw, node, week, writer.run_id):
                    writer.write(record)
                writer.finish()
    return tmp_path


def _week(
    make_record, draw: np.random.Generator, node: int, week: int, run: str
) -> list[Measurement]:
    slow = 1.06 if node == 5 and week >= 3 else 1.0
    rows, day = [], date(2026, 10, 1) + timedelta(weeks=week)
    for point in range(12):
        params = {"bytes": 2 ** (20 + point), "dtype": "float32"}
        for number in range(3):
            middle = 1e-3 * (1 + point) * slow * float(np.exp(draw.normal(0, 0.008)))
            rows.append(
                make_record(
                    params=params,
                    samples=(middle,) * 5,
                    node=f"n{node}",
                    run=run,
                    pass_index=number,
                    id=short_hash([node, week, point, number]),
                    started_at=f"{day}T00:00:00+00:00",
                )
            )
    return rows


def compare(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mi300bench", "compare", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_slow_node_among_eight_is_found_and_dated(fleet: Path) -> None:
    answer = compare("--by", "node", "--store", str(fleet))
    assert answer.returncode == 6 and "n5 " in answer.stderr and "2026-10-22" in answer.stderr
    assert ["yes", "n5"] in [line.split()[:2] for line in answer.stdout.splitlines()]
    document = json.loads(compare("--by", "node", "--store", str(fleet), "--json").stdout)
    assert [row["name"] for row in document["sides"] if row["is_odd"]] == ["n5"]
    (step,) = [change for change in document["changes"] if change["name"] == "n5"]
    assert not step["is_drift"]
    assert (
        step["name"] == "n5"
        and step["since"] == "2026-10-22"
        and step["ratio"]["mid"] == pytest.approx(1.06, abs=0.02)
    )


def test_two_nodes_point_by_point_and_what_is_no_side(fleet: Path) -> None:
    same = compare("node:n1", "node:n2", "--store", str(fleet))
    assert same.returncode == 0 and "12 points" in same.stdout
    runs = split(records_of_side("node:n5", fleet, lambda _: None), "run")
    names = sorted(runs, key=lambda name: runs[name][0].started_at)
    first, last = f"run:{names[0]}", f"run:{names[-1]}"
    slower = compare(first, last, "--store", str(fleet))
    assert slower.returncode == 6 and last in slower.stderr and first not in slower.stderr
    assert compare(str(fleet / "n1"), str(fleet / "n2")).returncode == 0
    for arguments, named in (
        (["node:n9", "node:n1"], "'n9'"),
        (["nowhere", "node:n1"], "'nowhere'"),
        (["node:n1"], "two sides"),
        (["--by", "node", "node:n1"], "--by"),
        (["node:n1", "node:n2", "--effect", "0"], "--effect"),
    ):
        answer = compare(*arguments, "--store", str(fleet))
        assert answer.returncode == 2 and "Traceback" not in answer.stderr
        error, hint = answer.stderr.splitlines()
        assert named in error and hint.startswith("Try: ")
    with pytest.raises(PlanError):
        records_of_side("nowhere", fleet, lambda _: None)


def test_slow_ranks_and_pairs_stand_out(make_record) -> None:
    ranks = tuple(tuple(1.0 + 0.001 * n for n in range(5)) for _ in range(8))
    slow = (*ranks[:6], tuple(1.1 * value for value in ranks[6]), ranks[7])
    records = [
        make_record("collective.all_reduce", ranks=8, rank_samples=slow, id=f"r{i}")
        for i in range(3)
    ]
    pairs = [
        make_record(
            "transfer", id=f"{a}{b}", samples=(1e-3 * (1.3 if (a, b) == (2, 3) else 1.0),),
            params={"bytes": 2**26, "src": f"G{a}", "dst": f"G{b}", "compute_units": 4},
        )
        for a in range(4)
        for b in range(4)
        if a != b
    ]  # fmt: skip
    named = {part.name: part for part in slow_parts([*records, *pairs])}
    assert (
        set(named) == {"n1 rank 6 of 8: takes longer", "n1 G2 to G3"}
        and named["n1 rank 6 of 8: takes longer"].of == 3
    )
    late = (*ranks[:6], tuple(0.6 * value for value in ranks[6]), ranks[7])
    (part,) = slow_parts([make_record("collective.all_reduce", ranks=8, rank_samples=late)])
    assert part.name == "n1 rank 6 of 8: comes late, the others wait"
    assert slow_parts([replace(record, rank_samples=ranks) for record in records]) == []


def test_a_history_without_a_step_is_not_dated(make_record) -> None:
    draw = np.random.default_rng(3)
    records = [r for week in range(WEEKS) for r in _week(make_record, draw, 1, week, f"run{week}")]
    assert dated_changes({"n1": records}) == []
    assert len(side_of(records)) == 12


def _stored(store: Path, node: str, records: Callable[[str], Iterable[Measurement]]) -> str:
    """Write one run of a node and return its id."""
    with RunWriter(store, node=node, header={"plan": "", "passes": 3, "points": 12}) as writer:
        for record in records(writer.run_id):
            writer.write(record)
        writer.finish()
        return writer.run_id


def _runs(make_record, store: Path, node: str, slow: Sequence[float], **changed) -> list[str]:
    """Store a week's run for each factor of twelve points' seconds, and return their ids."""
    names = []
    for week, factor in enumerate(slow):
        draw = np.random.default_rng(week + 17 * len(node))

        def records(
            run: str, week: int = week, factor: float = factor, draw=draw
        ) -> Iterable[Measurement]:
            for record in _week(make_record, draw, 1, week, run):
                yield replace(
                    record, node=node, samples=tuple(factor * s for s in record.samples), **changed
                )

        names.append(_stored(store, node, records))
    return names


def test_what_was_measured_otherwise_is_not_the_same_point(make_record) -> None:
    """A point is its definition and where its numbers come from, not the order of its keys."""
    point = Point(
        probe="memory.copy", method=1, target="", params={"bytes": 2**20, "dtype": "float32"}
    )

    def keys(point: Point, **changed) -> set[str]:
        records = (
            make_record(
                point=point.key,
                params=dict(point.params),
                method=point.method,
                pass_index=i,
                **changed,
            )
            for i in range(3)
        )
        return set(side_of(records))

    assert keys(point) == keys(replace(point, params=dict(reversed(point.params.items()))))
    others = (
        replace(point, environment={"NCCL_ALGO": "Ring"}),
        replace(point, params={**point.params, "bytes": 2**21}),
        replace(point, method=2),
        replace(point, world=World(ranks=2)),
    )
    assert not keys(point) & set().union(*map(keys, others))
    assert not keys(point) & (
        keys(point, origin=Origin.EMULATED) | keys(point, origin=Origin.IMPORTED, source="a log")
    )


def test_a_point_that_broke_fails_the_comparison(make_record, tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    _runs(make_record, good, "n1", [1.0])

    def records(run: str) -> Iterable[Measurement]:
        for record in _week(make_record, np.random.default_rng(1), 1, 0, run):
            broke = record.params["bytes"] == 2**22
            yield (
                replace(record, outcome=Outcome.FAILED, reason="out of memory", samples=())
                if broke
                else record
            )

    _stored(bad, "n1", records)
    answer = compare(str(good), str(bad))
    assert (
        answer.returncode == 6
        and "1 points have no result any more" in answer.stderr
        and "out of memory" in answer.stderr
    )


def test_of_equals_either_may_be_the_slow_one(make_record, tmp_path: Path) -> None:
    """Of a store split by nodes neither is the reference: the exit code depends on no name."""
    for slow, fast in (("a", "b"), ("b", "a")):
        store = tmp_path / slow
        _runs(make_record, store, slow, [1.1])
        _runs(make_record, store, fast, [1.0])
        answer = compare("--by", "node", "--store", str(store))
        assert answer.returncode == 6 and f"slower on {slow}" in answer.stderr, answer.stderr
    named = compare("node:a", "node:b", "--store", str(tmp_path / "a"))
    assert named.returncode == 0, "B is the faster one, which is no fault of a change from A to B"


def test_folders_of_several_nodes_are_compared_node_by_node(make_record, tmp_path: Path) -> None:
    for store, slow in (("before", 1.0), ("after", 1.08)):
        _runs(make_record, tmp_path / store, "fast", [1.0])
        _runs(make_record, tmp_path / store, "slow", [2.0 * slow])
    answer = compare(str(tmp_path / "before"), str(tmp_path / "after"), "--json")
    points = json.loads(answer.stdout)["points"]
    assert len(points) == 24 and answer.returncode == 6
    assert {row["label"].partition(":")[0] for row in points if row["verdict"] == "slower"} == {
        "slow"
    }


def test_sides_without_a_point_in_common_and_a_side_named_twice_are_refused(
    make_record, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    _runs(make_record, one, "n1", [1.0])
    _stored(
        other, "n1", lambda run: [make_record(params={"bytes": 4096, "dtype": "float32"}, run=run)]
    )
    answer = compare(str(one), str(other))
    assert answer.returncode == 2 and "no point in common" in answer.stderr
    answer = compare(str(one), f"{one}/.")
    assert answer.returncode == 2 and "named twice" in answer.stderr


def test_each_side_has_its_own_history(make_record, tmp_path: Path) -> None:
    """Runs of two sides are no one history: a slower store beside a faster is no step in time."""
    _runs(make_record, tmp_path / "one", "n1", [1.0, 1.0, 1.0])
    _runs(make_record, tmp_path / "other", "n1", [1.2, 1.2, 1.2])
    document = json.loads(compare(str(tmp_path / "one"), str(tmp_path / "other"), "--json").stdout)
    assert document["changes"] == []
