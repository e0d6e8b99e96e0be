"""Checkpoints of any trainer: a folder per save, complete or absent, the last few kept.

``step-00000050/`` holds the trainer's own files and ``run.json``: the config, the step, the
position in the text, the history of the record, and a digest of each file. It is written under
another name, synced, and renamed when it is complete, so that a kill or a full disk leaves the
checkpoint before it untouched. A damaged checkpoint is named in the error, with the one before it.

A trainer writes its files in the function that it gives to `save`, and reads them within `reading`.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mi300bench.errors import NodeError, PlanError, RecordError

from mi300bench_training.history import RunHistory

RUN = "run.json"
KEPT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRun:
    """A run at a step, without its tensors.

    `text` is the digest of what it was trained on, `cursor` the position in it.
    """

    config: Mapping[str, Any]
    text: str
    history: RunHistory
    cursor: Mapping[str, Any] = field(default_factory=dict)

    @property
    def step(self) -> int:
        """Return how many steps are done."""
        return self.history.steps


def find(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir())


def newest(folder: Path) -> Path | None:
    """Return the last checkpoint of a folder; None where there is none."""
    return next(reversed(find(folder)), None)


def resume_line(folder: Path | None, steps: int) -> str:
    """Return what ``--resume`` led to, as a line for people; `steps` are done."""
    if steps:
        return f"resumed after {steps} steps from {folder}"
    return f"no checkpoint in {folder}: a new run begins"


def save(
    folder: Path, run: SavedRun, write_state: Callable[[Path], None], *, keep: int = KEPT
) -> None:
    """Write a checkpoint; `write_state` puts the trainer's files into the folder that it is given.

    `write_state` raises `OSError` where it cannot write. The error is then a `NodeError`, and older
    checkpoints are complete.
    """
    path, partial = folder / f"step-{run.step:08d}", folder / f".partial-{run.step:08d}"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write_state(partial)
        files = sorted(partial.iterdir())
        contents = {
            "config": run.config,
            "step": run.step,
            "cursor": run.cursor,
            "text": run.text,
            "losses": run.history.losses,
            "seconds": run.history.seconds,
            "series": run.history.series,
            "digests": {file.name: _digest(file) for file in files},
        }
        (partial / RUN).write_text(json.dumps(contents))
        for written in (*files, partial / RUN, partial):
            _sync(written)
        shutil.rmtree(path, ignore_errors=True)
        partial.rename(path)
        _sync(folder)
    except OSError as cause:
        shutil.rmtree(partial, ignore_errors=True)
        raise NodeError(
            f"the checkpoint {path} cannot be written: {cause}",
            hint="free space or choose another folder; --resume continues from the save before it",
        ) from cause
    # Checkpoints after this one, of a run that went further, are not this run's to remove.
    up_to_this = [other for other in find(folder) if other <= path]
    for old in up_to_this[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


# What run.json holds, each of this type.
FORM: Mapping[str, type] = {
    "config": dict,
    "step": int,
    "cursor": dict,
    "text": str,
    "losses": list,
    "seconds": list,
    "series": dict,
    "digests": dict,
}


def read(path: Path) -> SavedRun:
    """Return the run of a checkpoint; `RecordError` names a file that is damaged."""
    with reading(path):
        contents = json.loads((path / RUN).read_text())
        _require_form(contents)
        for name, digest in contents["digests"].items():
            if _digest(path / name) != digest:
                raise ValueError(f"{name} has changed since it was written")
    return SavedRun(
        config=contents["config"],
        text=contents["text"],
        cursor=contents["cursor"],
        history=RunHistory(
            losses=contents["losses"], seconds=contents["seconds"], series=contents["series"]
        ),
    )


def _require_form(contents: Any) -> None:
    if not isinstance(contents, dict):
        raise ValueError(f"{RUN} holds no table")
    wrong = [name for name, kind in FORM.items() if not isinstance(contents.get(name), kind)]
    if wrong:
        raise ValueError(f"{RUN} has no usable {wrong[0]!r}")
    if not contents["step"] == len(contents["losses"]) == len(contents["seconds"]):
        raise ValueError(f"{RUN} has another number of losses than of steps")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a failure into a `RecordError` that names this checkpoint and the one before it."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, EOFError) as cause:
        raise RecordError(
            f"the checkpoint {path} is damaged: {cause}", hint=_before(path)
        ) from cause


def _before(path: Path) -> str:
    older = [other.name for other in find(path.parent) if other < path]
    return (
        f"remove {path.name}: --resume then continues from {older[-1]}"
        if older
        else "remove it to start a new run, or restore it from a copy"
    )


def require_same(
    path: Path, saved: SavedRun, *, config: Mapping[str, Any], keys: Sequence[str], text: str
) -> None:
    """Raise `PlanError` where a checkpoint is of another run.

    Another run differs in the config, in one of `keys`, or in its text. A checkpoint without a
    digest of its text is of any text.
    """
    for name in keys:
        if saved.config.get(name) != config[name]:
            raise PlanError(
                f"the checkpoint {path} was made with {name}={saved.config.get(name)!r}, "
                f"this run has {config[name]!r}",
                hint="another --checkpoint folder, or the config that it was made with",
            )
    if saved.text and saved.text != text:
        raise PlanError(
            f"the checkpoint {path} was trained on another text: "
            f"its digest is {saved.text}, this one's {text}",
            hint="restore the text, or choose another --checkpoint folder",
        )


def plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config as JSON gives it back, to compare it with a saved one."""
    tables: dict[str, Any] = json.loads(json.dumps(config))
    return tables


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
