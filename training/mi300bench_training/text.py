"""Text as every trainer reads it: files, CPython's documentation, the held-out part, the cache.

Without ``data.path`` a run trains on text that every CPython ships, so it needs no download. The
trainers differ in how they cut text into tokens and rows: each has a ``data.py`` for it.
"""

import fcntl
import hashlib
import os
import sysconfig
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mi300bench.errors import NodeError, PlanError

# One document in this many is held out.
HELD_OUT_ONE_IN = 20
# Folders of the standard library that hold no text to train on.
LEFT_OUT = {"test", "tests", "site-packages", "idle_test", "dist-packages"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDocument:
    """One text and its name, which does not depend on where its folder is."""

    name: str
    text: str


def python_topics() -> Iterator[TextDocument]:
    """Yield CPython's documentation of its language, in order of its topics."""
    from pydoc_data import topics

    for name, text in sorted(topics.topics.items()):
        yield TextDocument(name=f"topic {name}", text=text)


def python_library() -> Iterator[TextDocument]:
    """Yield the source of each module of CPython's standard library."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if not LEFT_OUT & set(inside.parts):
            yield TextDocument(name=str(inside), text=read_text(path, errors="replace"))


def files_of(path: Path, *, suffixes: Collection[str] = ()) -> list[Path]:
    """Return a file, or the files of a folder in order, of the `suffixes` if any are given."""
    if not path.exists():
        raise PlanError(
            f"the text {path} does not exist", hint="data.path is a text file or a folder of them"
        )
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return [file for file in files if not suffixes or file.suffix in suffixes]


def read_text(path: Path, *, errors: str = "strict") -> str:
    """Return the text of a file; `errors` says how to treat bytes that are not UTF-8."""
    try:
        return path.read_text(encoding="utf-8", errors=errors)
    except (OSError, UnicodeDecodeError) as cause:
        raise PlanError(
            f"{path} cannot be read as text: {cause}", hint="UTF-8 text or JSON lines"
        ) from cause


def is_held_out(name: str) -> bool:
    """Return whether the document of this name is held out, as one in twenty is."""
    number = int(hashlib.blake2b(name.encode(), digest_size=4).hexdigest(), 16)
    return number % HELD_OUT_ONE_IN == 0


def digest_of(*parts: str | bytes) -> str:
    """Return a short digest that identifies the concatenation of `parts`."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest.hexdigest()


def cache_folder() -> Path:
    """Return the folder of tokens: MI300BENCH_CACHE, or one in the user's cache folder."""
    base = (
        os.environ.get("MI300BENCH_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "mi300bench"
    )
    return Path(base).expanduser()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create a cache folder and hold it for one process; the others wait."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
    except OSError as cause:
        raise NodeError(
            f"the cache {folder} cannot be written: {cause.strerror}",
            hint="set MI300BENCH_CACHE to a folder that can be written",
        ) from cause
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
