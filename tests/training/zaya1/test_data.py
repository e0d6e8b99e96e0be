from pathlib import Path

import numpy as np
import pytest
from mi300bench.errors import PlanError

from mi300bench_training.text import cache_folder
from mi300bench_training.zaya1 import data
from mi300bench_training.zaya1.spec import TRAINER

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MI300BENCH_CACHE", str(tmp_path / "cache"))


def config(path: Path, **parts):
    made = TRAINER.override(TRAINER.preset("tiny"), {"data.path": str(path)})
    for key, value in parts.items():
        made = TRAINER.override(made, {f"data.{key}": value})
    return made


def test_the_standard_library_is_real_text_with_a_part_held_out() -> None:
    train, held_out = data.documents("")
    assert len(train) > 500 and 10 < len(held_out) < len(train) / 5
    assert not set(train) & set(held_out) or len(set(train) & set(held_out)) < 5
    assert any("def " in text for text in train)


def test_bytes_are_the_text(text_file: Path) -> None:
    streams = data.load(config(text_file))
    contents = bytes(streams.train.astype(np.uint8)).decode(errors="replace")
    assert contents[:200] == text_file.read_text()[:200]


def test_the_global_batch_does_not_depend_on_the_ranks(text_file: Path) -> None:
    import torch

    stream = data.load(config(text_file)).train
    one, _ = data.batch(stream, seed=1, step=3, part=0, parts=1, micro_batch=8, seq_len=16)
    parts = [
        data.batch(stream, seed=1, step=3, part=r, parts=4, micro_batch=2, seq_len=16)[0]
        for r in range(4)
    ]
    assert torch.equal(one, torch.cat(parts))


def test_targets_are_the_next_tokens(text_file: Path) -> None:
    import torch

    stream = data.load(config(text_file)).train
    inputs, targets = data.batch(stream, seed=1, step=0, part=0, parts=1, micro_batch=2, seq_len=16)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_a_bpe_vocabulary_is_trained_on_the_text_and_round_trips(text_file: Path) -> None:
    from tokenizers import Tokenizer

    made = TRAINER.override(config(text_file, tokenizer="bpe"), {"model.vocab": 600})
    streams = data.load(made)
    assert 256 < streams.train.max() < 600
    (path,) = cache_folder().glob("*/tokenizer.json")
    text = Tokenizer.from_file(str(path)).decode(streams.train[:50].tolist())
    assert text_file.read_text().startswith(text)
    assert np.array_equal(data.load(made).train, streams.train)


@pytest.mark.parametrize(("content", "named"), [(None, r"t\.txt"), ("too short", "129")])
def test_text_that_cannot_be_used_is_an_error(
    tmp_path: Path, content: str | None, named: str
) -> None:
    path = tmp_path / "t.txt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PlanError, match=named):
        data.load(config(path))


def test_a_folder_without_text_says_which_files_count(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(PlanError) as caught:
        data.load(config(tmp_path / "empty"))
    assert ".txt" in caught.value.hint
