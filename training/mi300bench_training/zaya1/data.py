"""Text, tokenizer and batches: real text, a held-out part, the same batches on any number of ranks.

Without a path the text is part of every CPython: its documentation and the sources of its standard
library. Tokenizer and tokens are cached under a digest of the text. Ranks that start together wait
until the first one has written them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mi300bench.errors import NodeError, PlanError
from numpy.typing import NDArray

from mi300bench_training import text
from mi300bench_training.zaya1.config import MOST_BPE_TOKENS, ZayaConfig

TEXT_SUFFIXES = {".txt", ".md", ".rst", ".py", ".jsonl", ".json", ".csv", ".html"}
# Separates documents; it is a token of each tokenizer.
SEPARATOR = "\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStreams:
    """A token stream to train on and a held-out one."""

    train: NDArray[np.int32]
    held_out: NDArray[np.int32]
    source: str

    @property
    def digest(self) -> str:
        """Return the digest of the tokens to train on."""
        return text.digest_of(self.train.tobytes())


def documents(path: str) -> tuple[list[str], list[str]]:
    """Return training and held-out documents; only a document's name decides where it goes."""
    listed = list(_files(Path(path)) if path else (*text.python_topics(), *text.python_library()))
    if not listed:
        raise PlanError(
            f"there is no text under {path!r}",
            hint=f"give a folder with files that end in {', '.join(sorted(TEXT_SUFFIXES))}",
        )
    if len(listed) == 1:  # of a single text, the end is held out
        whole = listed[0].text
        cut = len(whole) - len(whole) // text.HELD_OUT_ONE_IN
        return [whole[:cut]], [whole[cut:]]
    train: list[str] = []
    held_out: list[str] = []
    for document in listed:
        part = held_out if text.is_held_out(document.name) else train
        part.append(document.text.replace(SEPARATOR, " ") + SEPARATOR)
    return train, held_out or train[-1:]


def _files(path: Path) -> Iterator[text.TextDocument]:
    for file in text.files_of(path, suffixes=TEXT_SUFFIXES):
        name = str(file.relative_to(path.parent))
        yield text.TextDocument(name=name, text=text.read_text(file, errors="replace"))


def _encode(
    texts: list[str], config: ZayaConfig, folder: Path, training: list[str]
) -> NDArray[np.int32]:
    if config.data.tokenizer == "bytes":
        return np.frombuffer("".join(texts).encode(), dtype=np.uint8).astype(np.int32)
    try:
        from tokenizers import Tokenizer
    except ImportError as cause:
        raise NodeError(
            "the tokenizer bpe needs the package tokenizers, which is not installed",
            hint="pip install 'mi300bench[torch]', or set data.tokenizer to bytes",
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


def load(config: ZayaConfig) -> TokenStreams:
    """Return the text of `config` as tokens, from the cache if possible."""
    train, held_out = documents(config.data.path)
    vocab = str(min(config.model.vocab, MOST_BPE_TOKENS))
    folder = text.cache_folder() / text.digest_of(*train, *held_out, config.data.tokenizer, vocab)
    tokens = folder / "tokens.npz"
    with text.locked(folder):
        if not tokens.exists():
            arrays = {
                name: _encode(part, config, folder, train)
                for name, part in (("train", train), ("held", held_out))
            }
            whole = tokens.with_suffix(".partial.npz")
            np.savez(whole, train=arrays["train"], held=arrays["held"])
            whole.rename(tokens)
        with np.load(tokens) as saved:
            streams = TokenStreams(
                train=saved["train"],
                held_out=saved["held"],
                source=config.data.path or "CPython documentation and library",
            )
    needed = config.data.seq_len + 1
    if min(len(streams.train), len(streams.held_out)) < needed:
        raise PlanError(
            f"the text is too short: {len(streams.train)} tokens to train on and "
            f"{len(streams.held_out)} held out, but a sequence needs {needed}",
            hint="give more text, or a smaller data.seq_len",
        )
    return streams


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
    """Return inputs and targets [micro_batch, seq_len]: one part of the global batch of `step`.

    The positions of all sequences depend on seed and step only, so 2 ranks x 4 sequences are the
    same global batch as 1 x 8.
    """
    generator = np.random.default_rng([seed, step])
    starts = generator.integers(0, len(stream) - seq_len, size=micro_batch * parts)
    own = starts[part * micro_batch : (part + 1) * micro_batch]
    rows = np.stack([stream[start : start + seq_len + 1] for start in own]).astype(np.int64)
    tokens = torch.from_numpy(rows)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def micro_batches(
    streams: TokenStreams, config: ZayaConfig, *, step: int, rank: int, ranks: int, device: str
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the micro-batches of one rank for step `step`, on the device."""
    for micro in range(config.data.accumulate):
        inputs, targets = batch(
            streams.train,
            seed=config.seed,
            step=step,
            part=micro * ranks + rank,
            parts=config.data.accumulate * ranks,
            micro_batch=config.data.micro_batch,
            seq_len=config.data.seq_len,
        )
        yield inputs.to(device), targets.to(device)
