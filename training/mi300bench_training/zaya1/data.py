"""Text, tokenizer and batches: real text, a held-out part, the same batches on any number of ranks.

Without a path the corpus is what every CPython ships: its language documentation and the sources of its
standard library. Tokenizer and tokens are cached under a hash of the text; ranks that start together
wait for the first one to write them.
"""

import fcntl
import hashlib
import os
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mi300bench.errors import NodeError, PlanError
from numpy.typing import NDArray

from mi300bench_training.zaya1.config import MOST_BPE_TOKENS, TrainConfig

# One document in this many is held out.
HELD_OUT_ONE_IN = 20
TEXT_SUFFIXES = {".txt", ".md", ".rst", ".py", ".jsonl", ".json", ".csv", ".html"}
# Separates documents; the tokenizers give it a token of its own.
SEPARATOR = "\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Token streams, one to train on and one held out."""

    train: NDArray[np.int32]
    held_out: NDArray[np.int32]
    source: str


def _standard_library() -> Iterator[tuple[str, str]]:
    """Yield name and text of the documentation topics and of each module's source."""
    from pydoc_data import topics

    yield from ((f"topic {name}", text) for name, text in sorted(topics.topics.items()))
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if not {"test", "tests", "site-packages", "idle_test", "dist-packages"} & set(inside.parts):
            yield str(inside), path.read_text(encoding="utf-8", errors="replace")


def _files(path: Path) -> Iterator[tuple[str, str]]:
    if not path.exists():
        raise PlanError(
            f"the text {path} does not exist", hint="data.path is a text file or a folder of them"
        )
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file() and (path.is_file() or file.suffix in TEXT_SUFFIXES):
            yield (
                str(file.relative_to(path.parent)),
                file.read_text(encoding="utf-8", errors="replace"),
            )


def documents(path: str) -> tuple[list[str], list[str]]:
    """Return training and held-out documents; which is which depends on a document's name alone."""
    found = list(_files(Path(path)) if path else _standard_library())
    if not found:
        raise PlanError(
            f"no text under {path!r}", hint=f"files ending in {', '.join(sorted(TEXT_SUFFIXES))}"
        )
    if len(found) == 1:  # one long text: hold out its end
        text = found[0][1]
        cut = len(text) - len(text) // HELD_OUT_ONE_IN
        return [text[:cut]], [text[cut:]]
    train: list[str] = []
    held_out: list[str] = []
    for name, text in found:
        is_held_out = (
            int(hashlib.blake2b(name.encode(), digest_size=4).hexdigest(), 16) % HELD_OUT_ONE_IN
            == 0
        )
        (held_out if is_held_out else train).append(text.replace(SEPARATOR, " ") + SEPARATOR)
    return train, held_out or train[-1:]


def cache_folder() -> Path:
    """Return where tokenizers and tokens are kept: MI300BENCH_CACHE, or under the user's cache folder."""
    base = (
        os.environ.get("MI300BENCH_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "mi300bench"
    )
    return Path(base).expanduser()


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
    except OSError as cause:
        raise NodeError(
            f"the cache {folder} cannot be written: {cause.strerror}",
            hint="set MI300BENCH_CACHE to a folder that can",
        ) from cause
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _encode(
    texts: list[str], config: TrainConfig, folder: Path, training: list[str]
) -> NDArray[np.int32]:
    if config.data.tokenizer == "bytes":
        return np.frombuffer("".join(texts).encode(), dtype=np.uint8).astype(np.int32)
    try:
        from tokenizers import Tokenizer
    except ImportError as cause:
        raise NodeError(
            "the package tokenizers is not installed, and the BPE vocabulary is trained with it",
            hint="pip install 'mi300bench[torch]'",
        ) from cause
    path = folder / "tokenizer.json"
    if not path.exists():
        _train_bpe(training, config.model.vocab).save(str(path))
    tokenizer = Tokenizer.from_file(str(path))
    return np.concatenate(
        [np.asarray(e.ids, dtype=np.int32) for e in tokenizer.encode_batch(texts)]
    )


def _train_bpe(texts: list[str], vocab: int) -> Any:
    """Return a byte-level BPE tokenizer of at most `vocab` tokens, trained on `texts`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=min(vocab, MOST_BPE_TOKENS),
        special_tokens=[SEPARATOR],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def load(config: TrainConfig) -> Corpus:
    """Return the corpus of `config` as tokens, from the cache where it is there."""
    train, held_out = documents(config.data.path)
    digest = hashlib.blake2b(digest_size=8)
    for text in (
        *train,
        *held_out,
        config.data.tokenizer,
        str(min(config.model.vocab, MOST_BPE_TOKENS)),
    ):
        digest.update(text.encode())
    folder = cache_folder() / digest.hexdigest()
    tokens = folder / "tokens.npz"
    with _one_at_a_time(folder):
        if not tokens.exists():
            arrays = {
                name: _encode(part, config, folder, train)
                for name, part in (("train", train), ("held", held_out))
            }
            whole = tokens.with_suffix(".partial.npz")
            np.savez(whole, train=arrays["train"], held=arrays["held"])
            whole.rename(tokens)
        with np.load(tokens) as saved:
            corpus = Corpus(
                train=saved["train"],
                held_out=saved["held"],
                source=config.data.path or "CPython documentation and library",
            )
    needed = config.data.seq_len + 1
    if min(len(corpus.train), len(corpus.held_out)) < needed:
        raise PlanError(
            f"the text has {len(corpus.train)} tokens and {len(corpus.held_out)} held out; a sequence needs {needed}",
            hint="give more text, or a smaller data.seq_len",
        )
    return corpus


def batch(
    stream: NDArray[np.int32],
    *,
    seed: int,
    step: int,
    part: int,
    parts: int,
    micro_batch: int,
    seq_len: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and targets [micro_batch, seq_len]: one of the `parts` of the global batch of `step`.

    The starts of all sequences depend on seed and step only, so the global batch of 2 ranks x 4 is that of 1 x 8.
    """
    generator = np.random.default_rng([seed, step])
    starts = generator.integers(0, len(stream) - seq_len, size=micro_batch * parts)
    mine = starts[part * micro_batch : (part + 1) * micro_batch]
    rows = np.stack([stream[start : start + seq_len + 1] for start in mine]).astype(np.int64)
    tokens = torch.from_numpy(rows)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def micro_batches(
    corpus: Corpus, config: TrainConfig, *, step: int, rank: int, ranks: int, device: str
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the micro-batches of one rank for training step `step`, on the device."""
    for micro in range(config.data.accumulate):
        inputs, targets = batch(
            corpus.train,
            seed=config.seed,
            step=step,
            part=micro * ranks + rank,
            parts=config.data.accumulate * ranks,
            micro_batch=config.data.micro_batch,
            seq_len=config.data.seq_len,
        )
        yield inputs.to(device), targets.to(device)
