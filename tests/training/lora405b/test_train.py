"""Whole runs through the command line: they repeat bitwise, learn, survive being killed, and go on on another mesh."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
SMALL = (
    "--set",
    "data.batch=4",
    "--set",
    "data.seq_len=64",
    "--set",
    "optimizer.lr=0.01",
    "--device",
    "cpu",
)
ONE_DEVICE = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}


def command(*more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "mi300bench",
        "train",
        "lora405b",
        "--preset",
        "tiny",
        "--json",
        *SMALL,
        *more,
    ]


def train(folder: Path, *more: str) -> dict:
    answer = subprocess.run(
        command(*more),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env=ONE_DEVICE,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The record of six steps on one device, which other ways to run them are held against."""
    return train(tmp_path_factory.mktemp("six"), "--steps", "6")


def until(folder: Path, line: str, number: signal.Signals, *more: str) -> int:
    """Start a run and send it a signal when it prints `line`; return its exit status."""
    run = subprocess.Popen(
        command(*more),
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=ONE_DEVICE,
    )
    assert run.stderr is not None
    for said in run.stderr:
        if said.startswith(line):
            run.send_signal(number)
            break
    run.stderr.read()
    return run.wait(timeout=60)


def test_two_seeded_runs_are_equal_and_learn(tmp_path: Path) -> None:
    one = train(tmp_path, "--steps", "30")
    other = train(tmp_path, "--steps", "30")
    assert one["series"]["loss"] == other["series"]["loss"] and one["outcome"] == "ok"
    losses = one["series"]["loss"]
    assert losses[-1] < losses[0] - 0.3 and one["series"]["held_out_loss"][0] < losses[0]
    assert len(one["series"]["live_bytes"]) == 30 and min(one["series"]["live_bytes"]) > 1e6
    assert one["conditions"]["framework"] == "jax" and one["origin"] == "measured"


def test_a_killed_and_an_interrupted_run_go_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole = train(tmp_path, "--steps", "12")
    again = ("--steps", "12", "--checkpoint", "run", "--every", "2")
    assert until(tmp_path, "step     5", signal.SIGKILL, *again) == -signal.SIGKILL
    assert until(tmp_path, "step     8", signal.SIGTERM, *again, "--resume") == 5
    resumed = train(tmp_path, *again, "--resume")
    assert resumed["series"]["loss"] == whole["series"]["loss"]
    assert resumed["series"]["held_out_loss"] == whole["series"]["held_out_loss"]


def test_it_goes_on_on_another_mesh_and_says_that_devices_are_emulated(
    tmp_path: Path, six: dict
) -> None:
    until(tmp_path, "step     3", signal.SIGTERM, "--steps", "6", "--checkpoint", "run")
    resumed = train(
        tmp_path,
        "--steps",
        "6",
        "--checkpoint",
        "run",
        "--resume",
        "--set",
        "mesh.fsdp=2",
        "--set",
        "mesh.mp=2",
    )
    assert resumed["series"]["loss"] == pytest.approx(six["series"]["loss"], abs=1e-4)
    assert resumed["origin"] == "emulated" and "4 virtual devices" in resumed["source"]


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--set", "mesh.fsdp=8"), 2, "divide among dp x fsdp"),
        (("--set", "data.batch"), 2, "sets nothing"),
        (("--set", "data.magic=1"), 2, "has no key"),
        (("--set", "mesh.mp=3"), 2, "does not divide among"),
        (("--set", "weights=nowhere"), 4, "nowhere"),
        (("--set", "adapter=nowhere"), 4, "nowhere"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_run_ends_with_a_message_and_a_code(
    tmp_path: Path, more, code: int, said: str
) -> None:
    answer = subprocess.run(
        command("--steps", "2", *more),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=ONE_DEVICE,
    )
    assert (
        answer.returncode == code and said in answer.stderr and "Traceback" not in answer.stderr
    ), answer.stderr


def together(folder: Path, *more: str) -> list[subprocess.Popen[str]]:
    """Start two processes with a device each that train as one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    runs = []
    for number in range(2):
        told = {
            "JAX_COORDINATOR_ADDRESS": address,
            "JAX_NUM_PROCESSES": "2",
            "JAX_PROCESS_ID": str(number),
        }
        flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=1"}  # one device a process
        runs.append(
            subprocess.Popen(
                command("--set", "mesh.fsdp=2", *more),
                cwd=folder, env=ONE_DEVICE | told | flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
    return runs


def test_two_processes_train_as_one_and_the_first_alone_keeps_the_record(
    tmp_path: Path, six: dict
) -> None:
    runs = together(tmp_path, "--steps", "6", "--store", "shared")
    answers = [run.communicate(timeout=240) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], answers
    record = json.loads(answers[0][0].strip().splitlines()[-1])
    assert (
        record["series"]["loss"] == pytest.approx(six["series"]["loss"], rel=1e-5)
        and record["origin"] == "measured"
    )
    assert "probe" not in answers[1][0] and "step     1" not in answers[1][1]
    assert len(list((tmp_path / "shared").rglob("*.jsonl"))) == 1


def test_a_signal_that_reaches_one_process_of_two_ends_both_after_the_same_step(
    tmp_path: Path,
) -> None:
    """Launchers signal processes one after the other: the second must not wait for a step that the first will not take."""
    runs = together(tmp_path, "--steps", "4000", "--checkpoint", "run", "--every", "5000")
    first = runs[0].stderr
    assert first is not None
    for said in first:
        if said.startswith("step     3"):
            runs[1].send_signal(signal.SIGTERM)
            break
    rest = [run.communicate(timeout=120) for run in runs]
    assert [run.returncode for run in runs] == [5, 5], rest
    (saved,) = (tmp_path / "run").glob("step-*")
    steps = json.loads((saved / "run.json").read_text())["step"]
    assert 3 <= steps < 4000 and f"interrupted after {steps} of 4000 steps" in rest[0][1]


def test_a_checkpoint_that_the_first_process_cannot_write_ends_both(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "step-00000001").write_text("a file stands where the checkpoint should be")
    runs = together(tmp_path, "--steps", "6", "--checkpoint", "run", "--every", "1")
    answers = [run.communicate(timeout=120) for run in runs]
    assert all(run.returncode not in (0, 1) for run in runs), answers
    assert "cannot be written" in answers[0][1] and "failed in another process" in answers[1][1]
    assert not any("Traceback" in said for _, said in answers)
