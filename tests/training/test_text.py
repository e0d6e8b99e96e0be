"""Text on disk, and that each trainer's batches of it are the same in every version."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mi300bench.errors import NodeError, PlanError

from mi300bench_training import text
from mi300bench_training.lora405b import data as lora_data
from mi300bench_training.lora405b.config import LoraDataConfig


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return files of each kind that a trainer reads; only the LoRA trainer reads ``image.bin``."""
    monkeypatch.setenv("MI300BENCH_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "texts"
    (path / "sub").mkdir(parents=True)
    for number in range(30):
        words = " ".join(f"word{(number * 37 + k * k) % 101}" for k in range(200))
        (path / f"part{number:02}.txt").write_text(words)
    rows = [{"prompt": f"ask {n}", "completion": f"answer {n * n}"} for n in range(40)]
    (path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (path / "image.bin").write_text("not in a text suffix")
    (path / "sub" / "a.md").write_text("# title\n" * 50)
    return path


def digest(*arrays: np.ndarray) -> str:
    hasher = hashlib.blake2b(digest_size=8)
    for array in arrays:
        hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()


@pytest.mark.torch
def test_zaya1_s_batches_are_those_of_the_first_version(folder: Path) -> None:
    from mi300bench_training.zaya1 import data
    from mi300bench_training.zaya1.config import PRESETS

    tiny = PRESETS["tiny"]
    config = replace(tiny, data=replace(tiny.data, path=str(folder), seq_len=64))
    streams = data.load(config)
    batches = [
        tensor.numpy()
        for step in range(3)
        for pair in data.micro_batches(streams, config, step=step, rank=0, ranks=2, device="cpu")
        for tensor in pair
    ]
    assert (len(streams.train), len(streams.held_out)) == (42_433, 1384)
    assert digest(streams.train) == "b9c5c9e72a6d6935"
    assert digest(streams.held_out) == "ef2ebfea1a2891df"
    assert digest(*batches) == "96a70e2260a05052"


def test_lora405b_s_batches_are_those_of_the_first_version(folder: Path) -> None:
    packed = lora_data.load(LoraDataConfig(path=str(folder), seq_len=64, batch=4), vocab=384)
    cursor, batches = lora_data.Cursor(), []
    for _ in range(3):
        rows, cursor = cursor.take(packed.train, 4, 1)
        batches += [rows[name] for name in ("tokens", "targets", "documents")]
    assert (len(packed.train["tokens"]), len(packed.held_out["tokens"])) == (643, 22)
    assert packed.digest == "a51806cdcde4ac9e"
    assert digest(*packed.held_out.values()) == "6f5d37af1ac979eb"
    assert digest(*batches) == "d23cc195d1b621d1"


def test_files_come_in_order_and_a_missing_path_is_an_error(folder: Path) -> None:
    files = text.files_of(folder, suffixes={".txt", ".md"})
    assert len(files) == 31 and files == sorted(files)
    assert len(text.files_of(folder)) == 33 and text.files_of(files[0]) == [files[0]]
    with pytest.raises(PlanError, match="nowhere"):
        text.files_of(folder / "nowhere")


def test_bytes_that_are_no_text_are_an_error_or_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\xff")
    with pytest.raises(PlanError, match=r"a\.txt"):
        text.read_text(path)
    assert text.read_text(path, errors="replace") == "a\ufffd"


def test_what_every_python_has_is_named_and_a_twentieth_of_it_held_out() -> None:
    names = [document.name for document in (*text.python_topics(), *text.python_library())]
    assert len(names) > 500 and len(set(names)) == len(names)
    held_out = [name for name in names if text.is_held_out(name)]
    assert len(names) / 40 < len(held_out) < len(names) / 10


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NodeError, match="file"), text.locked(tmp_path / "file" / "cache"):
        pass
    with text.locked(tmp_path / "cache"):
        assert (tmp_path / "cache").is_dir()


def test_a_digest_is_of_the_concatenation() -> None:
    assert text.digest_of("ab", "c") == text.digest_of(b"abc") != text.digest_of("abd")
