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
SMALL = ("--set", "data.batch=4", "--set", "data.seq_len=64", "--set", "optimizer.lr=0.01", "--device", "cpu")
ONE_DEVICE = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}


def command(*more: str) -> list[str]:
    return [sys.executable, "-m", "mi300bench", "train", "lora405b", "--preset", "tiny", "--json", *SMALL, *more]


def train(folder: Path, *more: str) -> dict:
    answer = subprocess.run(command(*more), cwd=folder, capture_output=True, text=True, check=False, timeout=240, env=ONE_DEVICE)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.strip().splitlines()[-1])


def until(folder: Path, line: str, number: signal.Signals, *more: str) -> int:
    """Start a run and send it a signal when it prints `line`; return its exit status."""
    run = subprocess.Popen(command(*more), cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=ONE_DEVICE)
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


def test_it_goes_on_on_another_mesh_and_says_that_devices_are_emulated(tmp_path: Path) -> None:
    whole = train(tmp_path, "--steps", "6")
    until(tmp_path, "step     3", signal.SIGTERM, "--steps", "6", "--checkpoint", "run")
    resumed = train(tmp_path, "--steps", "6", "--checkpoint", "run", "--resume", "--set", "mesh.fsdp=2", "--set", "mesh.mp=2")
    assert resumed["series"]["loss"] == pytest.approx(whole["series"]["loss"], abs=1e-4)
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
def test_what_cannot_run_ends_with_a_message_and_a_code(tmp_path: Path, more, code: int, said: str) -> None:
    answer = subprocess.run(
        command("--steps", "2", *more), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120, env=ONE_DEVICE
    )
    assert answer.returncode == code and said in answer.stderr and "Traceback" not in answer.stderr, answer.stderr


def test_two_processes_train_as_one_and_the_first_alone_keeps_the_record(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    whole = train(tmp_path, "--steps", "6", "--store", "whole")
    runs = []
    for number in range(2):
        told = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": str(number)}
        flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=1"}  # one device a process
        runs.append(
            subprocess.Popen(
                command("--steps", "6", "--set", "mesh.fsdp=2", "--store", "shared"),
                cwd=tmp_path, env=ONE_DEVICE | told | flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
    answers = [run.communicate(timeout=240) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], answers
    losses = json.loads(answers[0][0].strip().splitlines()[-1])["series"]["loss"]
    assert losses == pytest.approx(whole["series"]["loss"], rel=1e-5)
    assert "probe" not in answers[1][0] and "step     1" not in answers[1][1]
    assert len(list((tmp_path / "shared").rglob("*.jsonl"))) == 1
