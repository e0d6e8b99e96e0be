"""What a reader gives back, and what the readers share: cleaning a log, reading numbers as people's locales print them."""

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from mi300bench.schema.record import Scalar, Series, Work

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\n]*\x07")
# What launchers put before a rank's line: mpirun --tag-output, srun --label, torchrun's prefix.
_LABEL = re.compile(
    r"^(?:\[\d{1,6},\d{1,6}\]<std(?:out|err)>:\s?|\s{0,6}\d{1,6}: |\[(?:default|rank)\d{1,6}\]:)"
)
_THOUSANDS = re.compile(r"^[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_DECIMAL = re.compile(r"^([+-]?\d{1,15}),(\d{1,15})$")
LONGEST_LINE = 4096
SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One result. `seconds` are per call; `stated` are figures that the tool printed beside; `ranks` 0 where it tells none."""

    probe: str
    params: Mapping[str, Scalar]
    line: int
    seconds: tuple[float, ...] = ()
    work: Work = field(default_factory=Work)
    ranks: int = 0
    stated: Series = field(default_factory=dict)
    wrong: str = ""  # why the answer is wrong, as the tool says
    no_speed: str = ""  # why there is no time, such as for a series of readings


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A line that was not read, and why. Banners and empty lines do not count."""

    line: int
    text: str
    why: str


@dataclass(slots=True, kw_only=True)
class LogReading:
    """The rows of a text, what was not read, and what the text says of the machine."""

    tool: str
    rows: list[Row] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    device: str = ""
    began: str = ""  # when, as the text says, in ISO 8601; empty where it does not
    counts: str = "line"  # what `line` counts: lines of a text, or entries of a document
    conditions: dict[str, Scalar] = field(default_factory=dict)

    def skip(self, line: int, text: str, why: str) -> None:
        """Note a line that was not read."""
        self.skipped.append(Skipped(line=line, text=printable(text.strip()[:SHOWN]), why=why))


def printable(text: str) -> str:
    """Return a text that can be written anywhere: JSON can hold halves of characters."""
    return text.encode("utf-8", "replace").decode("utf-8")


def date_of(text: str) -> str:
    """Return a date and time in ISO 8601, with its zone (taken for UTC where none is told); empty where the text is none."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return ""
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat(timespec="milliseconds")


def is_cut(text: str, line: int) -> bool:
    """Return whether `line` is the last of a text that does not end with one: its last word may be the beginning of one."""
    return not text.endswith("\n") and line == text.count("\n") + 1


def clean(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number, line) without colours, launchers' labels, carriage returns' overwritten parts and control characters.

    A line that a carriage return overwrites keeps each of its parts as a line of its own, with the same number.
    """
    for number, raw in enumerate(text.split("\n"), 1):
        for part in _COLOUR.sub("", raw[: 64 * LONGEST_LINE]).split("\r"):
            line = _LABEL.sub("", part[:LONGEST_LINE])
            yield number, "".join(c if c.isprintable() or c == "\t" else " " for c in line)


def number(text: str) -> float | None:
    """Return a number as printed in any common locale, None where it is none, is not finite or is absurdly large."""
    word = text.strip().strip('"').rstrip("*")
    if not word or len(word) > 40:
        return None
    if _THOUSANDS.match(word):
        word = word.replace(",", "")
    elif word.count(",") == 1 and "." not in word:
        word = word.replace(",", ".")
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < 1e30 else None


def whole(text: str) -> int | None:
    """Return a whole number of at least 0, None where it is none."""
    value = number(text)
    return int(value) if value is not None and value >= 0 and value == int(value) else None


def positive(text: str) -> float | None:
    """Return a number over 0, None where it is none."""
    value = number(text)
    return value if value is not None and value > 0 else None


def cells(line: str) -> list[str]:
    """Return the cells of a CSV line, separated by commas or, where locales take those for decimals, by semicolons."""
    try:
        parted = [cell.strip() for cell in next(csv.reader([line], delimiter=";"))]
        if len(parted) > 2:  # a comma within a cell is then a decimal one, never between thousands
            return [_DECIMAL.sub(r"\1.\2", cell) for cell in parted]
        return [cell.strip() for cell in next(csv.reader([line]))]
    except (csv.Error, StopIteration):
        return []


def seconds_of(micros: float) -> float:
    """Return seconds of microseconds."""
    return micros * 1e-6
