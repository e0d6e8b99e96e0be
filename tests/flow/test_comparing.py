"""Sides out of stores, the odd node with its date, slow ranks and pairs; and the command's exit codes."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from mi300bench.errors import PlanError
from mi300bench.fit.sides import dated_steps, side_of, slow_parts, split
from mi300bench.flow.comparing import chosen
from mi300bench.schema.record import Measurement, short_hash
from mi300bench.store.writer import RunWriter

WEEKS = 6


@pytest.fixture
def fleet(tmp_path: Path, make_record) -> Path:
    """A store of eight nodes over six weeks; n5 takes 6 % longer from the fourth week on."""
    draw = np.random.default_rng(1)
    for node in range(8):
        for week in range(WEEKS):
            with RunWriter(tmp_path, node=f"n{node}", header={"plan": "", "passes": 3, "points": 12}) as writer:
                for record in _week(make_record, draw, node, week, writer.run_id):
                    writer.write(record)
                writer.finish()
    return tmp_path


def _week(make_record, draw: np.random.Generator, node: int, week: int, run: str) -> list[Measurement]:
    slow = 1.06 if node == 5 and week >= 3 else 1.0
    rows, day = [], date(2026, 10, 1) + timedelta(weeks=week)
    for point in range(12):
        params = {"bytes": 2 ** (20 + point), "dtype": "float32"}
        for number in range(3):
            middle = 1e-3 * (1 + point) * slow * float(np.exp(draw.normal(0, 0.008)))
            rows.append(
                make_record(
                    params=params, samples=(middle,) * 5, node=f"n{node}", run=run, pass_index=number,
                    id=short_hash([node, week, point, number]), started_at=f"{day}T00:00:00+00:00",
                )
            )  # fmt: skip
    return rows


def compare(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mi300bench", "compare", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_slow_node_among_eight_is_found_and_dated(fleet: Path) -> None:
    answer = compare("--by", "node", "--store", str(fleet))
    assert answer.returncode == 6 and "n5 is slower than the others" in answer.stderr and "since 2026-10-22" in answer.stderr
    assert "yes    n5" in answer.stdout
    document = json.loads(compare("--by", "node", "--store", str(fleet), "--json").stdout)
    assert [row["name"] for row in document["sides"] if row["is_odd"]] == ["n5"]
    (step,) = document["steps"]
    assert step["name"] == "n5" and step["since"] == "2026-10-22" and step["ratio"]["mid"] == pytest.approx(1.06, abs=0.02)


def test_two_nodes_point_by_point_and_what_is_no_side(fleet: Path) -> None:
    same = compare("node:n1", "node:n2", "--store", str(fleet))
    assert same.returncode == 0 and "12 points in common" in same.stdout
    runs = split(chosen("node:n5", fleet, lambda _: None), "run")
    names = sorted(runs, key=lambda name: runs[name][0].started_at)
    first, last = f"run:{names[0]}", f"run:{names[-1]}"
    slower = compare(first, last, "--store", str(fleet))
    assert slower.returncode == 6 and "points got slower" in slower.stderr
    assert compare(str(fleet / "n1"), str(fleet / "n2")).returncode == 0
    for arguments, said in (
        (["node:n9", "node:n1"], "no node 'n9'"),
        (["nowhere", "node:n1"], "is no side"),
        (["node:n1"], "two sides or more"),
        (["--by", "node", "node:n1"], "exclude each other"),
        (["node:n1", "node:n2", "--effect", "0"], "an effect of 0"),
    ):
        answer = compare(*arguments, "--store", str(fleet))
        assert answer.returncode == 2 and said in answer.stderr and "Traceback" not in answer.stderr
    with pytest.raises(PlanError):
        chosen("nowhere", fleet, lambda _: None)


def test_slow_ranks_and_pairs_stand_out(make_record) -> None:
    ranks = tuple(tuple(1.0 + 0.001 * n for n in range(5)) for _ in range(8))
    slow = (*ranks[:6], tuple(1.1 * value for value in ranks[6]), ranks[7])
    records = [make_record("collective.all_reduce", ranks=8, rank_samples=slow, id=f"r{i}") for i in range(3)]
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
    assert set(named) == {"n1 rank 6 of 8", "n1 G2 to G3"} and named["n1 rank 6 of 8"].of == 3
    assert slow_parts([replace(record, rank_samples=ranks) for record in records]) == []


def test_a_history_without_a_step_is_not_dated(make_record) -> None:
    draw = np.random.default_rng(3)
    records = [r for week in range(WEEKS) for r in _week(make_record, draw, 1, week, f"run{week}")]
    assert dated_steps({"n1": records}) == []
    assert len(side_of(records)) == 12
