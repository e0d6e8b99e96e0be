"""Checkpoints of any trainer: complete or absent, the last few kept, damaged files named."""

import json
import resource
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from mi300bench.errors import NodeError, PlanError, RecordError

from mi300bench_training import checkpoint
from mi300bench_training.checkpoint import SavedRun
from mi300bench_training.history import RunHistory

CONFIG = {"model": {"layers": 2}, "seed": 1}


def run_at(step: int) -> SavedRun:
    history = RunHistory(losses=[1.5] * step, seconds=[0.1] * step, series={"busy": [0.5] * step})
    return SavedRun(config=CONFIG, text="abc", cursor={"row": step}, history=history)


def writer(**files: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, contents in files.items():
            (folder / name).write_bytes(contents)

    return write


def save(folder: Path, *steps: int) -> None:
    for step in steps:
        checkpoint.save(folder, run_at(step), writer(state=b"state of %d" % step))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_comes_back_and_the_last_three_are_kept(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3, 4)
    assert names(tmp_path) == ["step-00000002", "step-00000003", "step-00000004"]
    newest = checkpoint.newest(tmp_path)
    assert newest == tmp_path / "step-00000004"
    assert checkpoint.read(newest) == run_at(4)
    assert (newest / "state").read_bytes() == b"state of 4"


def test_as_many_as_asked_for_are_kept(tmp_path: Path) -> None:
    for step in range(1, 8):
        checkpoint.save(tmp_path, run_at(step), writer(state=b"s"), keep=5)
    assert len(names(tmp_path)) == 5


def test_a_run_that_starts_again_does_not_remove_what_it_has_just_written(tmp_path: Path) -> None:
    save(tmp_path, 60, 80, 100)
    save(tmp_path, 20, 100)
    assert names(tmp_path) == ["step-00000060", "step-00000080", "step-00000100"]
    save(tmp_path / "other", 60, 80, 100, 20)
    assert "step-00000020" in names(tmp_path / "other")


def test_a_folder_without_a_checkpoint_has_no_newest(tmp_path: Path) -> None:
    (tmp_path / ".partial-00000002").mkdir()
    (tmp_path / "step-00000001").write_text("a file, not a folder")
    assert checkpoint.newest(tmp_path) is None and checkpoint.newest(tmp_path / "missing") is None


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_a_damaged_file_is_named_and_so_is_the_checkpoint_before_it(
    tmp_path: Path, damage: str
) -> None:
    save(tmp_path, 3, 4)
    state = tmp_path / "step-00000004" / "state"
    if damage == "missing":
        state.unlink()
    else:
        state.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(RecordError, match="state") as caught:
        checkpoint.read(tmp_path / "step-00000004")
    assert "step-00000003" in caught.value.hint


def contents_with(**changes: object) -> str:
    run = run_at(1)
    contents: dict[str, object] = {
        "config": CONFIG,
        "step": 1,
        "cursor": {},
        "text": "",
        "losses": run.history.losses,
        "seconds": [0.1],
        "series": {},
        "digests": {},
    }
    return json.dumps(contents | changes)


@pytest.mark.parametrize(
    "contents",
    ["", "[]", "{}", '{"config": 1}', "\x00", contents_with(step=2), contents_with(losses="1")],
)
def test_an_unusable_run_file_is_a_damaged_checkpoint(tmp_path: Path, contents: str) -> None:
    path = tmp_path / "step-00000001"
    path.mkdir()
    (path / checkpoint.RUN).write_text(contents)
    with pytest.raises(RecordError, match=str(path)):
        checkpoint.read(path)
    (path / checkpoint.RUN).write_text(contents_with())
    assert checkpoint.read(path).step == 1


@pytest.mark.parametrize(
    ("config", "text", "named"),
    [
        ({"model": {"layers": 3}, "seed": 1}, "abc", "model"),
        ({"model": {"layers": 2}, "seed": 2}, "abc", "seed"),
        (CONFIG, "another", "another"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(
    tmp_path: Path, config: Mapping[str, object], text: str, named: str
) -> None:
    def require(config: Mapping[str, object], text: str) -> None:
        checkpoint.require_same(
            tmp_path, run_at(1), config=config, keys=("model", "seed"), text=text
        )

    require(CONFIG, "abc")
    require({**CONFIG, "mesh": "may differ"}, "abc")
    with pytest.raises(PlanError, match=named):
        require(config, text)


def test_a_full_disk_leaves_no_part_of_a_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # No file grows beyond this, as if the disk were full.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(NodeError):
            checkpoint.save(tmp_path, run_at(2), writer(state=bytes(10_000)))
        with pytest.raises(NodeError):  # a long history: run.json is too large
            checkpoint.save(tmp_path, run_at(2000), writer(state=b"small"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == ["step-00000001"] and checkpoint.read(tmp_path / "step-00000001")


def test_what_a_kill_left_behind_is_replaced(tmp_path: Path) -> None:
    (tmp_path / ".partial-00000002").mkdir()
    (tmp_path / ".partial-00000002" / "torn").write_text("half")
    save(tmp_path, 2)
    assert names(tmp_path) == ["step-00000002"]
    assert names(tmp_path / "step-00000002") == [checkpoint.RUN, "state"]
