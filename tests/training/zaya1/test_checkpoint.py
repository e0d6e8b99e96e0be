"""What a checkpoint of this trainer holds, and that a run of an earlier version can continue."""

import resource
from dataclasses import asdict
from pathlib import Path

import pytest
from mi300bench.errors import NodeError, PlanError, RecordError

from mi300bench_training.history import RunHistory
from mi300bench_training.zaya1.spec import TRAINER

pytestmark = pytest.mark.torch
CONFIG = TRAINER.override(TRAINER.preset("tiny"), {"model.blocks": 1, "model.hidden": 64})
HISTORY = RunHistory(losses=[5.0, 4.5], seconds=[0.1, 0.2])


def stepper_of(seed: int, steps: int = 0):
    """A stepper, `steps` into its training."""
    import torch

    from mi300bench_training.zaya1 import model, step

    built = model.build(TRAINER.override(CONFIG, {"seed": seed}), device="cpu")
    stepper = step.stepper(CONFIG, built, communicate=False)
    tokens = torch.randint(0, 256, (2, 17), generator=torch.Generator().manual_seed(seed))
    for number in range(steps):
        stepper.gradients([(tokens[:, :-1], tokens[:, 1:])])
        stepper.update(number)
    return stepper


def state_of(stepper) -> list:
    """All tensors of a stepper, in order."""
    import torch

    optimizers = (stepper.optimizer, stepper.balancer.step_of)
    moments = [
        value
        for optimizer in optimizers
        for state in optimizer.state_dict()["state"].values()
        for value in state.values()
        if torch.is_tensor(value)
    ]
    return [*stepper.model.state_dict().values(), stepper.balancer.biases, *moments]


def is_equal(one, other) -> bool:
    import torch

    pairs = zip(state_of(one), state_of(other), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.fixture(scope="module")
def trained():
    return stepper_of(seed=1, steps=2)


@pytest.fixture
def saved(tmp_path: Path, trained) -> Path:
    from mi300bench_training.zaya1 import checkpoint

    checkpoint.save(tmp_path / "run", trained, HISTORY, ranks=1, text="abc")
    return tmp_path / "run"


@pytest.fixture
def saved_by_the_first_version(tmp_path: Path, trained) -> Path:
    import torch

    state = {
        "config": asdict(CONFIG),
        "model": trained.model.state_dict(),
        "optimizer": trained.optimizer.state_dict(),
        "biases": trained.balancer.biases,
        "balancer": trained.balancer.step_of.state_dict(),
        "step": HISTORY.steps,
        "ranks": 1,
        "seconds": HISTORY.seconds,
        "losses": HISTORY.losses,
    }
    (tmp_path / "old").mkdir()
    torch.save(state, tmp_path / "old" / "zaya1.pt")
    return tmp_path / "old"


@pytest.mark.parametrize("version", ["saved", "saved_by_the_first_version"])
def test_a_checkpoint_puts_every_tensor_back(
    version: str, trained, request: pytest.FixtureRequest
) -> None:
    from mi300bench_training.zaya1 import checkpoint

    folder, stepper = request.getfixturevalue(version), stepper_of(seed=2)
    assert not is_equal(stepper_of(seed=2, steps=2), trained)
    assert checkpoint.load(folder, stepper, ranks=1, text="abc") == HISTORY
    assert is_equal(stepper, trained)


@pytest.mark.parametrize("version", ["saved", "saved_by_the_first_version"])
def test_another_number_of_ranks_is_refused(version: str, request: pytest.FixtureRequest) -> None:
    from mi300bench_training.zaya1 import checkpoint

    with pytest.raises(PlanError, match="ranks"):
        checkpoint.load(request.getfixturevalue(version), stepper_of(1), ranks=2, text="abc")


def test_another_text_is_refused_where_the_checkpoint_knows_its_own(saved: Path) -> None:
    from mi300bench_training.zaya1 import checkpoint

    with pytest.raises(PlanError, match="text"):
        checkpoint.load(saved, stepper_of(1), ranks=1, text="another")


def test_a_newer_checkpoint_goes_before_one_of_the_first_version(
    saved: Path, trained, saved_by_the_first_version: Path
) -> None:
    from mi300bench_training.zaya1 import checkpoint

    (saved_by_the_first_version / "zaya1.pt").rename(saved / "zaya1.pt")
    longer = RunHistory(losses=[5.0] * 3, seconds=[0.1] * 3)
    checkpoint.save(saved, trained, longer, ranks=1, text="abc")
    assert checkpoint.load(saved, stepper_of(2), ranks=1, text="abc") == longer


def test_no_checkpoint_is_an_empty_history(tmp_path: Path) -> None:
    from mi300bench_training.zaya1 import checkpoint

    checkpoint.check(tmp_path)
    assert checkpoint.load(tmp_path, stepper_of(1), ranks=1, text="abc") == RunHistory()


@pytest.mark.parametrize("contents", [b"not a checkpoint", b""], ids=str)
def test_a_damaged_file_of_the_first_version_is_named(tmp_path: Path, contents: bytes) -> None:
    from mi300bench_training.zaya1 import checkpoint

    (tmp_path / "zaya1.pt").write_bytes(contents)
    with pytest.raises(RecordError, match=r"zaya1\.pt"):
        checkpoint.check(tmp_path)


def test_a_file_of_the_first_version_without_a_part_is_named(
    saved_by_the_first_version: Path,
) -> None:
    import torch

    from mi300bench_training.zaya1 import checkpoint

    path = saved_by_the_first_version / "zaya1.pt"
    state = torch.load(path, weights_only=True)
    del state["balancer"]
    torch.save(state, path)
    with pytest.raises(RecordError, match="balancer"):
        checkpoint.check(saved_by_the_first_version)


def test_a_full_disk_leaves_the_checkpoint_before_it(saved: Path, trained) -> None:
    from mi300bench_training.zaya1 import checkpoint

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # No file grows beyond this, as if the disk were full.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    longer = RunHistory(losses=[5.0] * 3, seconds=[0.1] * 3)
    try:
        with pytest.raises(NodeError):
            checkpoint.save(saved, trained, longer, ranks=1, text="abc")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in saved.iterdir()] == ["step-00000002"]
    assert checkpoint.load(saved, stepper_of(2), ranks=1, text="abc") == HISTORY
