"""Tuning from records, without running anything; and the whole job, small, for real."""

import subprocess
import sys
from pathlib import Path

import pytest
from mi300bench.errors import NodeError, RecordError
from mi300bench.flow import trainers, tuning
from mi300bench.flow.autotune import needed_points
from mi300bench.flow.settings import Settings
from mi300bench.flow.tuning import Job, affordable, tune
from mi300bench.schema import config as tuned_config
from mi300bench.schema.record import Work, World
from mi300bench.units import MIB

WORLD = World(device="cpu", ranks=2, threads=1)


@pytest.fixture
def job() -> Job:
    return Job(trainer="zaya1", config=trainers.preset_config("zaya1", "tiny"), world=WORLD)


@pytest.fixture
def records(make_record, job: Job):
    found = [
        make_record(
            "collective.all_reduce",
            params={"bytes": s, "dtype": "float32"},
            ranks=2,
            samples=(1e-3 + s / 1e8,) * 5,
            work=Work(message_bytes=s),
        )
        for s in (8, 2**16, 2**20, 2**24, 2**26)
    ]
    parts = {"compute_alone_s": (1.0,), "collective_alone_s": (1.5,), "compute_beside_s": (1.1,), "both_s": (1.6,)}
    found.append(
        make_record("overlap", params={"bytes": MIB, "inflight": 2}, ranks=2, series=parts, work=Work(message_bytes=2 * MIB))
    )
    count = 30
    timeline = {"parameter": tuple(f"p{i}" for i in range(count)), "parameter_bytes": (MIB,) * count,
                "ready_s": tuple(0.01 * (i + 1) for i in range(count)) * 5, "forward_s": (0.1,) * 5, "backward_s": (0.31,) * 5,
                "update_s": (0.05,) * 5}  # fmt: skip
    found.append(make_record("zaya1.backward", params=dict(job.params), ranks=2, series=timeline))
    return found


def test_a_choice_names_the_records_it_rests_on(job: Job, records) -> None:
    tuned = tune(job, records, Settings(), confirm=False)
    choice = tuned.config.choices["ddp.bucket_cap_mb"]
    assert set(choice.evidence) == {record.id for record in records}
    assert tuned.config.confirmed is None
    assert tuned.config.config["ddp"]["bucket_cap_mb"] == choice.value
    assert trainers.from_tables("zaya1", tuned.config.config) is not None


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("collective.all_reduce", "mi300bench collectives"),
        ("overlap", "mi300bench overlap"),
        ("zaya1.backward", "autotune"),
    ],
)
def test_a_store_without_a_curve_says_which_command_measures_it(job: Job, records, missing: str, command: str) -> None:
    with pytest.raises(RecordError) as caught:
        tune(job, [r for r in records if r.probe != missing], Settings(), confirm=False)
    assert command in caught.value.hint


def test_records_of_two_devices_are_refused(job: Job, records, make_record) -> None:
    other = make_record(
        "collective.all_reduce",
        params={"bytes": 4, "dtype": "float32"},
        ranks=2,
        device="another",
        work=Work(message_bytes=4),
    )
    with pytest.raises(RecordError, match="do not compare"):
        tune(job, [*records, other], Settings(), confirm=False)


def test_one_rank_has_no_buckets(job: Job) -> None:
    from dataclasses import replace

    with pytest.raises(NodeError, match="between ranks"):
        needed_points(replace(job, world=World(device="cpu", ranks=1)))


def test_a_short_budget_drops_candidates_before_samples(monkeypatch) -> None:
    def left(seconds: float) -> Settings:
        monkeypatch.setattr(Settings, "remaining_s", lambda self: seconds)
        return Settings()

    sides, stop = affordable(left(1000.0), 1.0, sides=3, rounds=3)
    assert sides == 3 and stop.max_seconds == tuning.MOST_SAMPLING_S
    sides, stop = affordable(left(120.0), 1.0, sides=3, rounds=3)
    assert sides == 2 and stop.max_seconds == pytest.approx(7.0)
    assert affordable(left(1.0), 1.0, sides=3, rounds=3)[0] == 2


@pytest.mark.torch
def test_the_whole_job_leaves_a_store_a_config_and_a_report(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "mi300bench", "autotune", "zaya1", "--preset", "tiny", "--device", "cpu", "--budget", "90s",
         "--node", "n1"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    tuned = tuned_config.read(tmp_path / "tuned.toml")
    assert tuned.choices["ddp.bucket_cap_mb"].evidence
    text = (tmp_path / "report.html").read_text()
    assert "<h1>n1:" in text and "How to reproduce" in text and "Predicted against measured" in text
