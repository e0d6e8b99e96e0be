"""Rows of packed documents: what is learned, what is not, and a cursor that repeats."""

import json
from pathlib import Path

import numpy as np
import pytest
from mi300bench.errors import PlanError, RecordError

from mi300bench_training.lora405b import data
from mi300bench_training.lora405b.config import LoraDataConfig
from mi300bench_training.lora405b.data import END, IGNORED, START, Cursor, Document


def test_targets_stay_within_a_document_and_prompts_are_not_learned() -> None:
    packed = data.pack([Document(tokens=[1, 2, 3, 4], prompt=2), Document(tokens=[5, 6, 7, 8])], 8)
    assert packed["tokens"].tolist() == [[1, 2, 3, 4, 5, 6, 7, 8]]
    assert packed["targets"].tolist() == [[IGNORED, 3, 4, IGNORED, 6, 7, 8, IGNORED]]
    assert packed["documents"].tolist() == [[0, 0, 0, 0, 1, 1, 1, 1]]


def test_a_document_over_the_end_of_a_row_goes_on_in_the_next() -> None:
    packed = data.pack([Document(tokens=[1, 2, 3]), Document(tokens=[4, 5, 6, 7, 8])], 4)
    assert packed["tokens"].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert packed["documents"].tolist() == [[0, 0, 0, 1], [0, 0, 0, 0]]
    assert packed["targets"].tolist() == [[2, 3, IGNORED, 5], [6, 7, 8, IGNORED]]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "ab", "completion": "cd"},
        {"instruction": "ab", "output": "cd"},
        {"instruction": "a", "input": "b", "output": "cd"},
        {"text": "abcd"},
    ],
    ids=str,
)
def test_every_form_of_instruction_data_is_read(tmp_path: Path, row: dict) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n" + json.dumps(row) + "\n")
    (document,) = data.documents(LoraDataConfig(path=str(path)), data.Tokenizer("", 384))
    assert (
        document.tokens[0] == START
        and document.tokens[-1] == END
        and bytes(document.tokens[-3:-1]) == b"cd"
    )
    learned = data.pack([document, document], len(document.tokens))["targets"][0]
    if "text" not in row:
        assert learned[: document.prompt - 1].tolist() == [IGNORED] * (document.prompt - 1)
        assert learned[document.prompt - 1] == ord("c")


def test_a_line_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    for text, line in (
        ('{"text": "x"}\n{', ":2 "),
        ('{"question": "x"}', ":1 "),
    ):
        path.write_text(text)
        with pytest.raises(RecordError, match=line):
            data.documents(LoraDataConfig(path=str(path)), data.Tokenizer("", 384))
    path.write_text('{"text": "x"}')
    with pytest.raises(PlanError, match="128"):
        data.load(LoraDataConfig(path=str(path), seq_len=64), vocab=384)
    with pytest.raises(PlanError, match="vocabulary"):
        data.Tokenizer("", 100)


def test_the_corpus_that_every_python_ships_is_packed_and_a_part_held_out() -> None:
    corpus = data.load(LoraDataConfig(seq_len=64), vocab=384)
    assert (
        len(corpus.train["tokens"]) > 3000
        and 50 < len(corpus.held_out["tokens"]) < len(corpus.train["tokens"]) / 5
    )
    assert corpus.train["tokens"].max() <= END and corpus.train["targets"].min() == IGNORED


def test_a_cursor_takes_every_row_once_an_epoch_and_repeats() -> None:
    rows = {"tokens": np.arange(10, dtype=np.int32)[:, None]}
    cursor, seen = Cursor(), []
    for _ in range(5):
        part, cursor = cursor.take(rows, 4, seed=1)
        seen += part["tokens"][:, 0].tolist()
    assert (
        sorted(seen[:10]) == list(range(10))
        and sorted(seen[10:]) == list(range(10))
        and seen[:10] != seen[10:]
    )
    assert cursor == Cursor(epoch=2, row=0)
    again, _ = Cursor(epoch=0, row=8).take(rows, 4, seed=1)
    assert again["tokens"][:, 0].tolist() == seen[8:12]


def test_a_cursor_behind_a_text_that_shrank_begins_the_next_epoch() -> None:
    rows = {"tokens": np.arange(4, dtype=np.int32)[:, None]}
    part, cursor = Cursor(epoch=3, row=9).take(rows, 2, seed=1)
    assert len(part["tokens"]) == 2 and cursor == Cursor(epoch=4, row=2)


@pytest.mark.parametrize("count", [1, 2, 19, 40])
def test_what_is_held_out_is_never_trained_on(count: int) -> None:
    """Also of one document, as a plain text file is: the last twentieth of its tokens."""
    documents = [
        Document(tokens=list(range(1000 * n, 1000 * n + 200 + n)), prompt=3) for n in range(count)
    ]
    kept, held = data.split(documents, 8)
    tokens = [{t for document in part for t in document.tokens} for part in (kept, held)]
    assert not tokens[0] & tokens[1] and len(tokens[0] | tokens[1]) == sum(
        200 + n for n in range(count)
    )
    assert 8 <= len(tokens[1]) < 0.15 * len(tokens[0])
    assert all(document.tokens for document in (*kept, *held))


def test_two_texts_of_one_length_have_digests_of_their_own(tmp_path: Path) -> None:
    digests = set()
    for text in ("a" * 300, "b" * 300, "a" * 300):
        (tmp_path / "text.txt").write_text(text)
        digests.add(
            data.load(LoraDataConfig(path=str(tmp_path / "text.txt"), seq_len=16), vocab=384).digest
        )
    assert len(digests) == 2


def test_a_line_ends_at_a_newline_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        json.dumps({"text": "one\u2028two"}, ensure_ascii=False)
        + "\n"
        + json.dumps({"text": "three"})
        + "\n"
    )
    assert len(data.documents(LoraDataConfig(path=str(path)), data.Tokenizer("", 384))) == 2


@pytest.mark.parametrize(
    "marks", [("<|begin_of_text|>", "<|end_of_text|>"), ("[A]", "[Z]"), None], ids=str
)
def test_a_document_has_the_marks_of_its_tokenizer(
    tmp_path: Path, marks: tuple[str, str] | None
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {"ask": 0, "answer": 1} | ({marks[0]: 2, marks[1]: 3} if marks else {})
    built = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="ask"))
    built.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    built.save(str(tmp_path / "tokenizer.json"))
    if marks == ("[A]", "[Z]"):  # unusual names, from the file next to it
        config = {"bos_token": "[A]", "eos_token": {"content": "[Z]"}}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = data.Tokenizer(str(tmp_path / "tokenizer.json"), 384)
    document = tokenizer.document("ask", "answer")
    if marks is None:
        assert (
            document == Document(tokens=[0, 1], prompt=1)
            and (tokenizer.start, tokenizer.end) == (None, None)
            and tokenizer.missing
        )
    else:
        assert document == Document(tokens=[2, 0, 1, 3], prompt=2) and not tokenizer.missing
