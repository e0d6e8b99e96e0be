"""From text to rows: documents or instructions, tokens, packed rows, and a cursor to save.

A row has `seq_len` tokens of one or more documents. The target of a token is the next token of its
document. The tokens of a prompt and the last token of a document have no target. A document that
does not fit continues in the next row as a new one. Every twentieth document is held out; of fewer
than twenty documents, the last twentieth of the tokens.

A ``.jsonl`` file has prompt and completion, or instruction, input and output as in Alpaca, or only
text. Other files are plain text. Without a path the text is CPython's own documentation.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mi300bench.errors import NodeError, PlanError, RecordError
from numpy.typing import NDArray

from mi300bench_training import text
from mi300bench_training.lora405b.config import LoraDataConfig

IGNORED = -1  # the target of a token without one
BYTES, START, END = 256, 256, 257  # the built-in tokenizer: bytes, start and end of a document
# The usual names of the tokens for a document's start and end.
STARTS, ENDS = ("<|begin_of_text|>", "<s>"), ("<|end_of_text|>", "</s>")
Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The tokens of a document; the first `prompt` ones have no targets."""

    tokens: list[int]
    prompt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedText:
    """Packed rows [rows, seq_len] to train on and held-out ones: tokens, targets, documents."""

    train: dict[str, Rows]
    held_out: dict[str, Rows]
    source: str

    @property
    def digest(self) -> str:
        """Return the digest of the rows to train on; a cursor is valid for these rows only."""
        return text.digest_of(*(self.train[name].tobytes() for name in sorted(self.train)))


class Tokenizer:
    """Converts text to tokens: to bytes, or by a Hugging Face ``tokenizer.json``.

    `start` and `end` are the tokens for a document's start and end, or None.
    """

    def __init__(self, path: str, vocab: int) -> None:
        self.path = path
        self.inner: Any = None
        if path:
            try:
                from tokenizers import Tokenizer as Loaded
            except ImportError as cause:
                raise NodeError(
                    "data.tokenizer needs the package tokenizers, which is not installed",
                    hint="pip install tokenizers",
                ) from cause
            try:
                self.inner = Loaded.from_file(path)
            except Exception as cause:  # the library raises Exception itself
                raise PlanError(
                    f"{path} cannot be read as a tokenizer: {cause}",
                    hint="give a tokenizer.json of Hugging Face",
                ) from cause
        self.start = self._mark(START, STARTS, "bos_token")
        self.end = self._mark(END, ENDS, "eos_token")
        needed = self.inner.get_vocab_size() if self.inner else END + 1
        if needed > vocab:
            raise PlanError(
                f"the tokenizer has {needed} tokens, but the model's vocabulary has only {vocab}",
                hint="give a smaller --tokenizer, or a --preset with a larger vocabulary",
            )

    def _mark(self, built_in: int, names: tuple[str, ...], key: str) -> int | None:
        """Return the token of a mark, from ``tokenizer_config.json`` or by its usual names."""
        if not self.inner:
            return built_in
        config = Path(self.path).parent / "tokenizer_config.json"
        try:
            mark = json.loads(config.read_text()).get(key) if config.exists() else None
        except (OSError, ValueError, AttributeError) as cause:
            raise PlanError(
                f"{config} cannot be read: {cause}", hint="restore it from a copy, or remove it"
            ) from cause
        if mark:
            names = (str(mark.get("content") if isinstance(mark, dict) else mark),)
        numbers = (self.inner.token_to_id(name) for name in names)
        return next((number for number in numbers if number is not None), None)

    def encode(self, words: str) -> list[int]:
        """Return the tokens of a text."""
        return (
            list(self.inner.encode(words, add_special_tokens=False).ids)
            if self.inner
            else list(words.encode())
        )

    def document(self, prompt: str, answer: str) -> Document:
        """Return a document with its start and end marks."""
        given = self.encode(prompt) if prompt else []
        start, end = ([] if mark is None else [mark] for mark in (self.start, self.end))
        return Document(
            tokens=[*start, *given, *self.encode(answer), *end],
            prompt=len(start) + len(given) if given else 0,
        )

    @property
    def missing(self) -> str:
        """Return which marks documents do not have, as a sentence; empty if they have both."""
        lacking = [
            name for name, mark in (("start", self.start), ("end", self.end)) if mark is None
        ]
        return f"documents have no {' and no '.join(lacking)} mark" if lacking else ""


def _pair(row: dict[str, Any]) -> tuple[str, str] | None:
    """Return prompt and answer of a line of instruction data; None for an unknown form."""
    if isinstance(row.get("text"), str):
        return "", row["text"]
    if isinstance(row.get("prompt"), str) and isinstance(row.get("completion"), str):
        return row["prompt"], row["completion"]
    if isinstance(row.get("instruction"), str) and isinstance(row.get("output"), str):
        given = f"\n\n{row['input']}" if row.get("input") else ""
        return f"{row['instruction']}{given}\n\n", row["output"]
    return None


def _read(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (prompt, answer) of a file; `RecordError` names the line that cannot be read."""
    contents = text.read_text(path)
    if path.suffix != ".jsonl":
        yield "", contents
        return
    for number, line in enumerate(contents.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as cause:
            raise RecordError(
                f"{path}:{number} is not JSON: {cause}", hint="write one JSON object on each line"
            ) from cause
        pair = _pair(row) if isinstance(row, dict) else None
        if pair is None:
            raise RecordError(
                f"{path}:{number} has none of the known keys: prompt and completion, instruction "
                "and output, or text",
                hint="rename the keys of its object",
            )
        yield pair


def documents(config: LoraDataConfig, tokenizer: Tokenizer) -> list[Document]:
    """Return the documents of a file or a folder, or those of CPython's documentation."""
    if config.path:
        pairs = [pair for file in text.files_of(Path(config.path)) for pair in _read(file)]
    else:
        pairs = [("", topic.text) for topic in text.python_topics()]
    listed = [tokenizer.document(prompt, answer) for prompt, answer in pairs]
    return [document for document in listed if len(document.tokens) > 1]


def pack(documents: list[Document], seq_len: int) -> dict[str, Rows]:
    """Return rows of tokens, targets and document numbers (0, 1, ... within a row).

    A last row that is not full is left out.
    """
    tokens: list[int] = []
    targets: list[int] = []
    starts: list[int] = []
    for document in documents:
        starts.append(len(tokens))
        tokens += document.tokens
        learned = [
            IGNORED if place + 1 < document.prompt else token
            for place, token in enumerate(document.tokens[1:])
        ]
        targets += [*learned, IGNORED]
    rows = len(tokens) // seq_len
    mark = np.zeros(len(tokens), np.int32)
    mark[starts] = 1
    shape = (rows, seq_len)
    numbers = np.cumsum(mark[: rows * seq_len].reshape(shape), axis=1, dtype=np.int32)
    return {
        "tokens": np.array(tokens[: rows * seq_len], np.int32).reshape(shape),
        "targets": np.array(targets[: rows * seq_len], np.int32).reshape(shape),
        "documents": numbers - numbers[:, :1],
    }


def _first_tokens(documents: list[Document], count: int) -> tuple[list[Document], list[Document]]:
    """Return the documents split after `count` tokens, if necessary within a document."""
    first: list[Document] = []
    for place, document in enumerate(documents):
        if len(document.tokens) > count:
            head = Document(tokens=document.tokens[:count], prompt=min(document.prompt, count))
            tail = Document(tokens=document.tokens[count:], prompt=max(document.prompt - count, 0))
            return [*first, head], [tail, *documents[place + 1 :]]
        first.append(document)
        count -= len(document.tokens)
    return first, []


def split(documents: list[Document], seq_len: int) -> tuple[list[Document], list[Document]]:
    """Return documents to train on and held-out ones, without common text.

    `PlanError` if either has no full row.
    """
    total = sum(len(document.tokens) for document in documents)
    if total < 2 * seq_len:
        raise PlanError(
            f"the text has {total} tokens, but needs {2 * seq_len}: a row of {seq_len} to train on "
            "and one held out",
            hint="give more text, or a smaller --seq-len",
        )
    one_in = text.HELD_OUT_ONE_IN
    held = documents[::one_in]
    held_tokens = sum(len(document.tokens) for document in held)
    if len(documents) >= one_in and seq_len <= held_tokens <= total - seq_len:
        return [document for place, document in enumerate(documents) if place % one_in], held
    return _first_tokens(documents, total - max(total // one_in, seq_len))


def load(config: LoraDataConfig, *, vocab: int) -> PackedText:
    """Return the packed text, with a twentieth held out."""
    tokenizer = Tokenizer(config.tokenizer, vocab)
    kept, held = split(documents(config, tokenizer), config.seq_len)
    source = config.path or "CPython's documentation"
    return PackedText(
        train=pack(kept, config.seq_len),
        held_out=pack(held, config.seq_len),
        source=f"{source} ({tokenizer.missing})" if tokenizer.missing else source,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A run's position in the text: the epoch, and the number of its rows that are done."""

    epoch: int = 0
    row: int = 0

    def take(
        self, rows: dict[str, Rows], count: int, seed: int
    ) -> tuple[dict[str, Rows], "Cursor"]:
        """Return the next `count` rows and the cursor after them.

        Seed and epoch determine the order of the rows.
        """
        total, epoch, place = len(rows["tokens"]), self.epoch, self.row
        chosen: list[int] = []
        while len(chosen) < count:
            order = np.random.default_rng([seed, epoch]).permutation(total)
            some = order[place : place + count - len(chosen)]
            chosen += some.tolist()
            place += len(some)
            if place >= total:
                epoch, place = epoch + 1, 0
        return {name: value[chosen] for name, value in rows.items()}, Cursor(epoch=epoch, row=place)
