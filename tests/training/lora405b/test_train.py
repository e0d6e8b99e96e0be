"""Whole runs: they repeat bitwise, learn, survive a kill, and continue on another mesh."""

import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from tests.training.runs import Answer, call, signal_at, start, wait

pytest.importorskip("jax")
STEPS, SAVED_AT = 40, 36
# One device in each process that a test starts, and cheap compilation.
ENVIRONMENT = {**os.environ, "XLA_FLAGS": "--xla_backend_optimization_level=1"}
# Each of several processes has one device.
OF_SEVERAL = f"{ENVIRONMENT['XLA_FLAGS']} --xla_force_host_platform_device_count=1"


@pytest.fixture(autouse=True)
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def arguments(text_path: Path, compilation_cache: Path) -> list[str]:
    """What every run here has in common."""
    ENVIRONMENT["JAX_COMPILATION_CACHE_DIR"] = str(compilation_cache)
    ENVIRONMENT["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    keys = ("data.batch=4", "data.seq_len=64", "optimizer.lr=0.01")
    settings = [part for key in keys for part in ("--set", key)]
    return ["train", "lora405b", "--device", "cpu", "--data", str(text_path), "--json", *settings]


@pytest.fixture(scope="module")
def alone(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    """A run on one device, to compare others with: its record, and its checkpoints."""
    folder = tmp_path_factory.mktemp("alone")
    saving = ("--steps", STEPS, "--checkpoint", "run", "--every", SAVED_AT)
    record = wait(start(folder, *arguments, *saving, environment=ENVIRONMENT)).record
    return record, folder / "run"


@pytest.fixture
def saved(alone: tuple[dict, Path], tmp_path: Path) -> Path:
    """A folder with the checkpoint from which the last steps of that run can be repeated."""
    name = f"step-{SAVED_AT:08d}"
    shutil.copytree(alone[1] / name, tmp_path / "run" / name)
    return tmp_path / "run"


def several(folder: Path, *arguments: object) -> list[subprocess.Popen[str]]:
    """Start two processes with a device each that train as one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    group = {
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_NUM_PROCESSES": "2",
        "XLA_FLAGS": OF_SEVERAL,
    }
    return [
        start(
            folder,
            *arguments,
            "--set",
            "mesh.fsdp=2",
            environment=ENVIRONMENT | group | {"JAX_PROCESS_ID": str(number)},
        )
        for number in range(2)
    ]


def answers_of(runs: list[subprocess.Popen[str]]) -> list[Answer]:
    return [wait(run) for run in runs]


def test_a_run_learns_and_its_record_is_complete(alone: tuple[dict, Path]) -> None:
    record, _ = alone
    losses, live_bytes = record["series"]["loss"], record["series"]["live_bytes"]
    assert record["outcome"] == "ok" and record["origin"] == "measured"
    assert losses[-1] < losses[0] - 0.3 and record["series"]["held_out_loss"][0] < losses[0]
    assert len(record["samples"]) == len(losses) == len(live_bytes) == STEPS
    assert min(live_bytes) > 1e6 and record["conditions"]["framework"] == "jax"


def test_a_killed_and_an_interrupted_run_are_bitwise_the_run_that_was_not(
    tmp_path: Path, arguments: list[str], alone: tuple[dict, Path]
) -> None:
    """The killed run repeats the first steps: two runs with one seed are equal too."""
    saving = (*arguments, "--steps", STEPS, "--checkpoint", "run", "--every", 2)
    killed = start(tmp_path, *saving, environment=ENVIRONMENT)
    signal_at(3, signal.SIGKILL, killed)
    assert wait(killed).code == -signal.SIGKILL
    interrupted = start(tmp_path, *saving, "--resume", environment=ENVIRONMENT)
    signal_at(5, signal.SIGTERM, interrupted)
    assert wait(interrupted).code == 5
    resumed = wait(start(tmp_path, *saving, "--resume", environment=ENVIRONMENT)).record
    for name in ("loss", "held_out_loss"):
        assert resumed["series"][name] == alone[0]["series"][name]
    assert len(resumed["samples"]) == STEPS


def test_a_run_continues_on_another_mesh_of_devices_that_are_emulated(
    tmp_path: Path, arguments: list[str], alone: tuple[dict, Path], saved: Path
) -> None:
    mesh = ("--set", "mesh.fsdp=2", "--set", "mesh.mp=2")
    run = (*arguments, "--steps", STEPS, "--checkpoint", saved, "--resume", *mesh)
    record = wait(start(tmp_path, *run, environment=ENVIRONMENT)).record
    assert record["series"]["loss"] == pytest.approx(alone[0]["series"]["loss"], abs=1e-4)
    assert record["world"]["ranks"] == 4
    assert record["origin"] == "emulated" and record["source"].startswith("4 ")


@pytest.mark.parametrize(
    ("keys", "code", "named"),
    [
        (("mesh.fsdp=8",), 2, "dp=1 x fsdp=8"),
        (("data.batch",), 2, "data.batch"),
        (("data.magic=1",), 2, "magic"),
        (("mesh.mp=8", "model.ffn=350"), 2, "350"),
        (("mesh.mp=8", "weights=nowhere"), 4, "nowhere"),
        (("mesh.mp=8", "adapter=nowhere"), 4, "nowhere"),
    ],
    ids=str,
)
def test_what_cannot_run_ends_with_a_message_and_a_code(
    arguments: list[str], keys: tuple[str, ...], code: int, named: str
) -> None:
    settings = [part for key in keys for part in ("--set", key)]
    answer = call(*arguments, "--steps", 2, *settings)
    assert answer.code == code and named in answer.err


def test_two_processes_train_as_one_and_the_first_alone_keeps_the_record(
    tmp_path: Path, arguments: list[str], alone: tuple[dict, Path], saved: Path
) -> None:
    run = (*arguments, "--steps", STEPS, "--checkpoint", saved, "--resume", "--store", "shared")
    first, second = answers_of(several(tmp_path, *run))
    assert first.code == second.code == 0, (first.err, second.err)
    assert first.record["series"]["loss"] == pytest.approx(alone[0]["series"]["loss"], rel=1e-5)
    assert first.record["origin"] == "measured"
    assert "{" not in second.out and "step" not in second.err
    assert len(list((tmp_path / "shared").rglob("*.jsonl"))) == 1


def test_a_signal_to_one_process_of_two_ends_both_after_the_same_step(
    tmp_path: Path, arguments: list[str]
) -> None:
    """Launchers signal one process after the other, and none may wait for another's next step."""
    runs = several(tmp_path, *arguments, "--steps", 4000, "--checkpoint", "run", "--every", 5000)
    signal_at(3, signal.SIGTERM, runs[0], runs[1])
    first, second = answers_of(runs)
    assert first.code == second.code == 5, (first.err, second.err)
    (saved,) = (tmp_path / "run").glob("step-*")
    steps = json.loads((saved / "run.json").read_text())["step"]
    assert 3 <= steps < 4000
    (record,) = [json.loads(line) for line in first.out.strip().splitlines() if "probe" in line]
    assert record["outcome"] == "failed" and len(record["samples"]) == steps


def test_a_checkpoint_that_the_first_process_cannot_write_ends_both(
    tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "step-00000001").write_text("a file in place of the checkpoint")
    run = (*arguments, "--steps", 6, "--checkpoint", "run", "--every", 1)
    first, second = answers_of(several(tmp_path, *run))
    assert first.code == second.code == 3, (first.err, second.err)
    assert str(tmp_path / "run" / "step-00000001") in first.err or "step-00000001" in first.err
    assert "Traceback" not in first.err + second.err
