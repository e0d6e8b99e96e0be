"""What a reader gives back, and what the readers share: cleaning a log, reading numbers as people's locales print them."""

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mi300bench.schema.record import Scalar, Series, Work

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\n]*\x07")
# What launchers put before a rank's line: mpirun --tag-output, srun --label, torchrun's prefix.
_LABEL = re.compile(r"^(?:\[\d{1,6},\d{1,6}\]<std(?:out|err)>:\s?|\s{0,6}\d{1,6}: |\[(?:default|rank)\d{1,6}\]:)")
_THOUSANDS = re.compile(r"^[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
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
class Reading:
    """The rows of a text, what was not read, and what the text says of the machine."""

    tool: str
    rows: list[Row] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    device: str = ""
    conditions: dict[str, Scalar] = field(default_factory=dict)

    def skip(self, line: int, text: str, why: str) -> None:
        """Note a line that was not read."""
        self.skipped.append(Skipped(line=line, text=text.strip()[:SHOWN], why=why))


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
    separator = ";" if line.count(";") > line.count(",") else ","
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]
    except (csv.Error, StopIteration):
        return []


def seconds_of(micros: float) -> float:
    """Return seconds of microseconds."""
    return micros * 1e-6
