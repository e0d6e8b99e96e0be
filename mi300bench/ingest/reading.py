"""What a reader returns, and what the readers share: cleaning a log, reading numbers and dates."""

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from mi300bench.schema.record import Scalar, Series, Work

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\n]*\x07")
# Labels that launchers put before a rank's line: mpirun --tag-output, srun --label, torchrun.
_LABEL = re.compile(
    r"^(?:\[\d{1,6},\d{1,6}\]<std(?:out|err)>:\s?|\s{0,6}\d{1,6}: |\[(?:default|rank)\d{1,6}\]:)"
)
_THOUSANDS = re.compile(r"^[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_DECIMAL = re.compile(r"^([+-]?\d{1,15}),(\d{1,15})$")
# Why the last line of a file is not read.
CUT_OFF = "the file ends within this line, so its last number may be incomplete"
LONGEST_LINE = 4096
SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One result. `seconds` are per call, `stated` other figures that the tool printed.

    `ranks` is 0 where the tool states none.
    """

    probe: str
    params: Mapping[str, Scalar]
    line: int
    seconds: tuple[float, ...] = ()
    work: Work = field(default_factory=Work)
    ranks: int = 0
    stated: Series = field(default_factory=dict)
    wrong: str = ""  # why the answer is wrong, where the tool checked it
    no_speed: str = ""  # why there is no time


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A line that was not read, and why. Banners and empty lines are not listed."""

    line: int
    text: str
    why: str


@dataclass(slots=True, kw_only=True)
class LogReading:
    """The rows of a text, the lines that were not read, and the machine as the text names it."""

    tool: str
    rows: list[Row] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    device: str = ""
    began: str = ""  # date and time of the run in ISO 8601; empty where the text has none
    counts: str = "line"  # what a row's `line` counts: lines of a text, or entries of a document
    conditions: dict[str, Scalar] = field(default_factory=dict)

    def skip(self, line: int, text: str, why: str) -> None:
        """Note a line that was not read."""
        self.skipped.append(Skipped(line=line, text=printable(text.strip()[:SHOWN]), why=why))


def printable(text: str) -> str:
    """Return a text without lone surrogates, which JSON may hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def date_of(text: str) -> str:
    """Return a date and time in ISO 8601, in UTC if it has no zone; empty if `text` is no date."""
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError:
        return ""
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).isoformat(timespec="milliseconds")


def is_cut(text: str, line: int) -> bool:
    """Return whether `line` is the last one of a text that does not end with a line feed."""
    return not text.endswith("\n") and line == text.count("\n") + 1


def clean(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, without colours, launchers' labels and control characters.

    Carriage returns split a line into parts, which are yielded as lines with the same number.
    """
    for number, raw in enumerate(text.split("\n"), 1):
        for part in _COLOUR.sub("", raw[: 64 * LONGEST_LINE]).split("\r"):
            line = _LABEL.sub("", part[:LONGEST_LINE])
            yield number, "".join(c if c.isprintable() or c == "\t" else " " for c in line)


def number(text: str) -> float | None:
    """Return a number as printed in any common locale; None if it is no number or not finite."""
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
    """Return a whole number of at least 0; None where the text is none."""
    value = number(text)
    return int(value) if value is not None and value >= 0 and value == int(value) else None


def positive(text: str) -> float | None:
    """Return a number over 0; None where the text is none."""
    value = number(text)
    return value if value is not None and value > 0 else None


def cells(line: str) -> list[str]:
    """Return the cells of a CSV line, separated by commas, or by semicolons with decimal commas."""
    try:
        parted = [cell.strip() for cell in next(csv.reader([line], delimiter=";"))]
        if len(parted) > 2:  # then a comma in a cell is a decimal one, not of thousands
            return [_DECIMAL.sub(r"\1.\2", cell) for cell in parted]
        return [cell.strip() for cell in next(csv.reader([line]))]
    except (csv.Error, StopIteration):
        return []


def seconds_of(micros: float) -> float:
    """Return seconds of microseconds."""
    return micros * 1e-6
