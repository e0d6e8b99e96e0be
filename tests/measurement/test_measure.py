"""A sweep killed and resumed: nothing is lost, nothing is measured twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mi300bench.errors import ProbeError
from mi300bench.measurement.measure import measure, require_all_ok
from mi300bench.measurement.settings import Settings
from mi300bench.schema.plan import Plan, Point, Stop
from mi300bench.schema.record import Origin, Outcome, World
from mi300bench.store.reader import read_records

pytestmark = [pytest.mark.torch, pytest.mark.slow]
QUICK = Stop(min_samples=3, max_seconds=0.1, warmup_seconds=0.0)
WORLD = World(device="cpu", ranks=1, threads=1)


def point(name: str, number: int, **params) -> Point:
    return Point(
        probe=name,
        method=1,
        target=f"tests.runner.dying:{name}",
        params={"n": number, **params},
        world=WORLD,
        stop=QUICK,
    )


def test_a_failed_point_is_measured_again_on_resume_and_only_that(tmp_path: Path) -> None:
    points = (point("Quiet", 1), point("Dies", 2, rank=0), point("Quiet", 3))
    plan = Plan(question="?", points=points, passes=1)
    first = measure(plan, Settings(store=tmp_path, node="n1"))
    assert (first.tally.ok, first.tally.failed) == (2, 1)
    with pytest.raises(ProbeError, match="SIGKILL"):
        require_all_ok(first)
    second = measure(plan, Settings(store=tmp_path, node="n1", resume=True))
    assert second.path == first.path and (second.tally.ok, second.tally.failed) == (0, 1)
    assert sum(r.outcome is Outcome.OK for r in second.records) == 2


def test_a_finished_run_is_not_resumed(tmp_path: Path) -> None:
    plan = Plan(question="?", points=(point("Quiet", 1),), passes=1)
    settings = Settings(store=tmp_path, node="n1", resume=True)
    assert measure(plan, settings).path != measure(plan, settings).path


def test_a_wrong_answer_fails_the_command_and_is_kept(tmp_path: Path) -> None:
    measured = measure(
        Plan(question="?", points=(point("Lies", 1),), passes=1),
        Settings(store=tmp_path, node="n1"),
    )
    with pytest.raises(ProbeError, match="2 \\+ 2 = 5"):
        require_all_ok(measured)
    (record,) = read_records(tmp_path)
    assert record.outcome is Outcome.WRONG_ANSWER and record.samples


def test_records_carry_their_origin(tmp_path: Path) -> None:
    settings = Settings(store=tmp_path, node="n1", origin=Origin.EMULATED, source="a toy")
    (record,) = measure(Plan(question="?", points=(point("Quiet", 1),), passes=1), settings).records
    assert (record.origin, record.source, record.node) == (Origin.EMULATED, "a toy", "n1")


SWEEP = """
[sweep]
question = "What survives?"
[[probe]]
name = "memory.copy"
axes.bytes = { from = 4096, to = 4194304, times = 2 }
params = { dtype = "float32", variant = "op" }
stop = { max_seconds = 0.3, relative_ci = 0.0 }
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_command_keeps_its_records_and_resumes(
    tmp_path: Path, sent: signal.Signals
) -> None:
    (tmp_path / "s.toml").write_text(SWEEP)
    command = [
        *(sys.executable, "-m", "mi300bench", "sweep", "run", str(tmp_path / "s.toml")),
        *("--device", "cpu", "--store", str(tmp_path / "runs"), "--passes", "1", "--node", "n1"),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _count(tmp_path / "runs") < 3:
        time.sleep(0.05)
    os.kill(process.pid, sent)
    _, messages = process.communicate(timeout=60)
    kept = _count(tmp_path / "runs")
    assert 3 <= kept < 11
    if sent is signal.SIGINT:
        assert process.returncode == 130 and "--resume" in messages and "Traceback" not in messages
    resumed = subprocess.run(
        [*command, "--resume"], capture_output=True, text=True, check=False, timeout=120
    )
    assert resumed.returncode == 0, resumed.stderr
    records = read_records(tmp_path / "runs")
    assert len(records) == 11 == len({record.point for record in records})


def _count(store: Path) -> int:
    return sum(path.read_text().count('"line":"record"') for path in store.glob("*/*.jsonl"))
