"""Whole runs: they repeat bitwise, learn, resume, and mean the same on two ranks."""

import shutil
import signal
from pathlib import Path

import pytest
from tests.training.runs import call, signal_at, start, wait

from mi300bench_training.zaya1.spec import TRAINER

pytestmark = pytest.mark.torch
STEPS = 24
# One rank with one thread, as pytest's workers share the cores.
ONE_RANK = ("--set", "launch.ranks=1", "--set", "launch.threads=1")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.fixture(autouse=True)
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def arguments(text_path: Path) -> list[object]:
    """What every run here has in common."""
    return ["train", "zaya1", "--device", "cpu", "--data", text_path, "--json", "--steps", STEPS]


@pytest.fixture(scope="module")
def alone(arguments: list[object], tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    """A run on one rank, to compare others with: its record, and its checkpoints."""
    folder = tmp_path_factory.mktemp("alone")
    run = (*arguments, *ONE_RANK, "--checkpoint", "run", "--every", 20)
    return wait(start(folder, *run)).record, folder / "run"


@pytest.fixture(scope="module")
def on_two_ranks(arguments: list[object], tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The record of a run of a tuned config on two ranks of this machine."""
    import tomli_w
    from mi300bench.schema import config as tuned_config
    from tests.schema.test_config import tuned

    folder = tmp_path_factory.mktemp("two")
    config = TRAINER.override(TRAINER.preset("tiny"), {"ddp.bucket_cap_mb": [0.1, 1.0]})
    document = tuned_config.to_document(tuned()) | {"config": TRAINER.to_tables(config)}
    (folder / "tuned.toml").write_text(tomli_w.dumps(document))
    run = (*arguments, "--config", "tuned.toml", "--ranks", 2, "--node", "n7")
    return wait(start(folder, *run)).record


def test_two_seeded_runs_are_bitwise_equal_and_learn(
    arguments: list[object], alone: tuple[dict, Path]
) -> None:
    record, _ = alone
    assert call(*arguments, *ONE_RANK).record["series"] == record["series"]
    losses = record["series"]["loss"]
    assert losses[-1] < losses[0] - 1.0 and record["series"]["held_out_loss"][0] < losses[0]
    other_seed = call(*arguments, *ONE_RANK, "--steps", 1, "--seed", 2).record
    assert other_seed["series"]["loss"][0] != losses[0]


def test_a_killed_run_that_resumes_is_bitwise_the_run_that_was_not(
    tmp_path: Path, arguments: list[object], alone: tuple[dict, Path]
) -> None:
    run = (*arguments, *ONE_RANK, "--checkpoint", "run", "--every", 3)
    killed = start(tmp_path, *run)
    signal_at(5, signal.SIGKILL, killed)
    assert wait(killed).code == -signal.SIGKILL
    assert call(*run, "--resume").record["series"] == alone[0]["series"]


def test_a_tuned_config_is_the_whole_config(on_two_ranks: dict) -> None:
    assert on_two_ranks["params"]["tuned"] is True
    assert on_two_ranks["params"]["ddp.bucket_cap_mb"] == "0.1,1"
    assert len(on_two_ranks["samples"]) == STEPS
    assert on_two_ranks["world"]["ranks"] == 2 and on_two_ranks["node"] == "n7"


def test_two_ranks_take_the_steps_of_one_with_their_batch(
    arguments: list[object], on_two_ranks: dict
) -> None:
    one = call(*arguments, *ONE_RANK, "--set", "data.micro_batch=8").record
    # Later steps differ more: rounding moves a token to another expert now and then.
    losses = on_two_ranks["series"]["loss"][:4]
    assert losses == pytest.approx(one["series"]["loss"][:4], rel=1e-4)


def test_two_ranks_that_are_interrupted_go_on_under_torchrun_as_one_run(
    tmp_path: Path, arguments: list[object], on_two_ranks: dict
) -> None:
    """Neither the launcher nor the buckets change a figure."""
    run = (*arguments, "--checkpoint", "run", "--every", 2)
    interrupted = start(tmp_path, *run, "--ranks", 2)
    signal_at(3, signal.SIGINT, interrupted)
    answer = wait(interrupted)
    assert answer.code != 0 and "Traceback" not in answer.err
    assert list((tmp_path / "run").glob("step-*"))
    resumed = wait(start(tmp_path, *run, "--resume", launcher=TORCHRUN)).record
    assert resumed["series"] == on_two_ranks["series"] and resumed["world"]["ranks"] == 2


@pytest.mark.parametrize(
    ("more", "code", "named"),
    [(("--seed", 9), 2, "seed"), (("--set", "data.micro_batch=2"), 2, "data")],
    ids=str,
)
def test_a_checkpoint_of_another_run_is_refused(
    arguments: list[object],
    alone: tuple[dict, Path],
    more: tuple[object, ...],
    code: int,
    named: str,
) -> None:
    answer = call(*arguments, *ONE_RANK, "--checkpoint", alone[1], "--resume", *more)
    assert answer.code == code and named in answer.err


def test_a_damaged_checkpoint_is_named_before_ranks_start(
    tmp_path: Path, arguments: list[object], alone: tuple[dict, Path]
) -> None:
    shutil.copytree(alone[1], tmp_path / "run")
    newest = tmp_path / "run" / f"step-{STEPS:08d}" / "state.pt"
    newest.write_bytes(newest.read_bytes()[:-100])
    for ranks in (ONE_RANK, ("--ranks", 2)):
        answer = call(*arguments, *ranks, "--checkpoint", "run", "--resume")
        assert answer.code == 4 and newest.parent.name in answer.err
        assert "step-00000020" in answer.err


def test_one_batch_can_be_learned_by_heart() -> None:
    import torch

    from mi300bench_training.zaya1 import model, step
    from mi300bench_training.zaya1.spec import TRAINER

    torch.manual_seed(0)
    config = TRAINER.override(
        TRAINER.override(TRAINER.preset("tiny"), {"steps": 120}), {"optimizer.lr": 3e-3}
    )
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
