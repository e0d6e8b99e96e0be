"""Whole runs through the command line: they repeat bitwise, learn, resume, and mean the same on two ranks."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch


def train(folder: Path, text: Path, *more: str, launcher: tuple[str, ...] = ()) -> dict:
    command = [
        sys.executable,
        *launcher,
        "-m",
        "mi300bench",
        "train",
        "zaya1",
        "--device",
        "cpu",
        "--data",
        str(text),
        "--json",
        *more,
    ]
    answer = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=240
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.strip().splitlines()[-1])


def test_two_seeded_runs_are_bitwise_equal_and_learn(tmp_path: Path, text_file: Path) -> None:
    one = train(tmp_path, text_file, "--ranks", "1", "--steps", "25")
    other = train(tmp_path, text_file, "--ranks", "1", "--steps", "25")
    assert one["series"] == other["series"]
    losses = one["series"]["loss"]
    assert losses[-1] < losses[0] - 1.0 and one["series"]["held_out_loss"][0] < losses[0]
    seeded = train(tmp_path, text_file, "--ranks", "1", "--steps", "3", "--seed", "2")
    assert seeded["series"]["loss"][0] != losses[0]


def test_a_resumed_run_is_the_run_that_was_not_stopped(tmp_path: Path, text_file: Path) -> None:
    whole = train(
        tmp_path, text_file, "--ranks", "1", "--steps", "8", "--checkpoint", "a", "--every", "4"
    )
    import torch

    state = torch.load(tmp_path / "a" / "zaya1.pt", weights_only=True)
    assert state["step"] == 8
    stopped = subprocess.Popen(
        [sys.executable, "-m", "mi300bench", "train", "zaya1", "--device", "cpu", "--data", str(text_file), "--ranks", "1",
         "--steps", "8", "--checkpoint", "b", "--every", "3"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert stopped.stderr is not None
    for line in stopped.stderr:
        if line.startswith("step     5"):
            stopped.kill()
            break
    stopped.wait()
    resumed = train(
        tmp_path,
        text_file,
        "--ranks",
        "1",
        "--steps",
        "8",
        "--checkpoint",
        "b",
        "--every",
        "3",
        "--resume",
    )
    assert resumed["series"] == whole["series"]


def test_two_ranks_under_torchrun_take_the_same_steps_as_one_with_their_batch(
    tmp_path: Path, text_file: Path
) -> None:
    two = train(
        tmp_path,
        text_file,
        "--steps",
        "4",
        launcher=("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
    )
    local = train(tmp_path, text_file, "--steps", "4", "--ranks", "2", "--node", "n7")
    assert two["series"] == local["series"] and two["world"]["ranks"] == 2 and local["node"] == "n7"
    import tomli_w
    from mi300bench.schema import config as tuned_config
    from tests.schema.test_config import tuned

    from mi300bench_training.zaya1.spec import TRAINER

    whole = TRAINER.override(TRAINER.override(TRAINER.preset("tiny"), {"data.micro_batch": 8}), {"steps": 4})
    (tmp_path / "whole.toml").write_text(
        tomli_w.dumps(tuned_config.to_document(tuned()) | {"config": TRAINER.to_tables(whole)})
    )
    one = train(tmp_path, text_file, "--config", "whole.toml", "--ranks", "1")
    assert two["series"]["loss"] == pytest.approx(one["series"]["loss"], rel=1e-4)


def test_two_ranks_resume_as_one_run(tmp_path: Path, text_file: Path) -> None:
    whole = train(tmp_path, text_file, "--steps", "6", "--ranks", "2")
    command = [sys.executable, "-m", "mi300bench", "train", "zaya1", "--device", "cpu", "--data", str(text_file), "--ranks", "2",
               "--steps", "6", "--checkpoint", "e", "--every", "2"]  # fmt: skip
    stopped = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert stopped.stderr is not None
    for line in stopped.stderr:
        if line.startswith("step     3"):
            stopped.send_signal(signal.SIGINT)
            break
    assert "Traceback" not in stopped.stderr.read()
    stopped.wait(timeout=60)
    resumed = train(
        tmp_path, text_file, "--steps", "6", "--ranks", "2", "--checkpoint", "e", "--resume"
    )
    assert resumed["series"]["loss"] == whole["series"]["loss"]


def test_a_tuned_config_is_the_whole_config(tmp_path: Path, text_file: Path) -> None:
    import tomli_w
    from mi300bench.schema import config as tuned_config
    from tests.schema.test_config import tuned

    from mi300bench_training.zaya1.spec import TRAINER

    made = TRAINER.override(TRAINER.override(TRAINER.preset("tiny"), {"steps": 3}), {"ddp.bucket_cap_mb": [0.1, 1.0]})
    document = tuned_config.to_document(tuned()) | {"config": TRAINER.to_tables(made)}
    (tmp_path / "tuned.toml").write_text(tomli_w.dumps(document))
    record = train(tmp_path, text_file, "--config", "tuned.toml", "--ranks", "2")
    assert (
        record["params"]["tuned"] is True
        and record["params"]["ddp.bucket_cap_mb"] == "0.1,1"
        and len(record["samples"]) == 3
    )


def test_a_damaged_checkpoint_is_named(tmp_path: Path, text_file: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "zaya1.pt").write_bytes(b"not a checkpoint")
    answer = subprocess.run(
        [sys.executable, "-m", "mi300bench", "train", "zaya1", "--device", "cpu", "--data", str(text_file), "--ranks", "1",
         "--steps", "2", "--checkpoint", "c", "--resume"], cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (
        answer.returncode == 4
        and "zaya1.pt is damaged" in answer.stderr
        and "Traceback" not in answer.stderr
    )


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, text_file: Path) -> None:
    train(tmp_path, text_file, "--ranks", "1", "--steps", "2", "--checkpoint", "d")
    answer = subprocess.run(
        [sys.executable, "-m", "mi300bench", "train", "zaya1", "--device", "cpu", "--data", str(text_file), "--ranks", "1",
         "--steps", "2", "--seed", "9", "--checkpoint", "d", "--resume"], cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 2 and "seed" in answer.stderr


def test_one_batch_can_be_learned_by_heart() -> None:
    import torch

    from mi300bench_training.zaya1 import model, step
    from mi300bench_training.zaya1.spec import TRAINER

    torch.manual_seed(0)
    config = TRAINER.override(TRAINER.override(TRAINER.preset("tiny"), {"steps": 120}), {"optimizer.lr": 3e-3})
    built = model.build(config, device="cpu")
    stepper = step.stepper(config, built, communicate=False)
    tokens = torch.randint(0, 256, (2, 17))
    for number in range(120):
        loss = stepper.gradients([(tokens[:, :-1], tokens[:, 1:])])
        stepper.update(number)
    assert loss.item() < 0.1


def test_balancing_evens_a_skewed_load() -> None:
    import torch

    from mi300bench_training.zaya1 import model, step
    from mi300bench_training.zaya1.spec import TRAINER

    config = TRAINER.preset("tiny")
    built = model.build(config, device="cpu")
    balancer = step.Balancer(built, 1e-3, over_ranks=False)
    balancer.biases[:, 0] += 0.05
    for block, bias in zip(built.blocks, balancer.biases, strict=True):
        block.router.balance.copy_(bias)
    tokens = torch.randint(0, 256, (4, 64))

    def entropy(shares: torch.Tensor) -> float:
        even = shares[:, :-1] / shares[:, :-1].sum(1, keepdim=True)
        return float(
            (-(even.clamp_min(1e-9).log() * even).sum(1) / torch.log(torch.tensor(4.0))).min()
        )

    built(tokens)
    balancer.count()
    before = entropy(balancer.shares())
    seen = []
    for _ in range(200):
        with torch.no_grad():
            built(tokens)
        balancer.count()
        seen.append(balancer.step())
    assert before < 0.5 and entropy(torch.stack(seen[-50:]).mean(0)) > 0.95
