"""BabelStream: its table and its CSV (--csv), in MB, MiB, GB, GiB, TB or TiB per second.

BabelStream prints the bandwidth of its best run, and the shortest, longest and mean time; the mean
is read. Bytes are counted as STREAM does: two arrays for copy, mul and dot, three for add and
triad. Nstream is not read, because other tools count its bytes differently.
"""

import re

from mi300bench.ingest.reading import (
    CUT_OFF,
    LogReading,
    Row,
    cells,
    clean,
    is_cut,
    positive,
    whole,
)
from mi300bench.schema.record import Scalar, Work

TOOL = "BabelStream"
PATTERNS = {
    "copy": ("copy", 1, 1),
    "mul": ("scale", 1, 1),
    "add": ("add", 2, 1),
    "triad": ("triad", 2, 1),
    "dot": ("dot", 2, 0),
}
UNITS = {
    "mb": 1e6,
    "mbytes": 1e6,
    "gb": 1e9,
    "gbytes": 1e9,
    "tb": 1e12,
    "mib": 2.0**20,
    "mibytes": 2.0**20,
    "gib": 2.0**30,
    "gibytes": 2.0**30,
    "tib": 2.0**40,
}
_CSV_RATE = re.compile(r"^max_([A-Za-z]+)_per_sec$")
_TABLE = re.compile(r"^Function\s+([A-Za-z]+)(?:ytes)?/s(?:ec)?\b")
_COUNT = re.compile(r"^Number of elements: (\d{1,18})")
_SIZE = re.compile(r"^Array size: ([\d.,]{1,24}) ([KMGT]i?B)")
_NAMED = re.compile(
    r"^(?:Using (?:HIP|CUDA|OpenCL|SYCL|OMP)? ?device:?|Device name:)\s*(.{1,80})", re.IGNORECASE
)
SIZES = {
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}


def is_ours(text: str) -> bool:
    """Return whether a text is BabelStream's."""
    head = text[:100_000]
    return "BabelStream" in head or bool(re.search(r"function[,;]num_times[,;]n_elements", head))


def _row(
    name: str, each: int, element: int, mean: float, rate: float, unit: float, *, line: int
) -> Row:
    pattern, read, written = PATTERNS[name.lower()]
    dtype = {4: "float32", 8: "float64"}.get(element, f"{element} bytes")
    params: dict[str, Scalar] = {"bytes": each, "dtype": dtype, "variant": "babelstream"}
    return Row(
        probe=f"memory.{pattern}",
        params=params,
        line=line,
        seconds=(mean,),
        ranks=1,
        work=Work(bytes_read=float(read * each), bytes_written=float(written * each)),
        stated={"stated_best": (rate * unit,)},
    )


def read(text: str) -> LogReading:
    """Return the rows of one run, or of several runs in one file."""
    reading = LogReading(tool=TOOL)
    state = _State()
    for line, raw in clean(text):
        stripped = raw.strip()
        if match := _NAMED.match(stripped):
            reading.device = match.group(1).strip()
        elif stripped.lower().startswith("function") and ("," in stripped or ";" in stripped):
            state.columns = [value.lower() for value in cells(stripped)]
        elif match := _TABLE.match(stripped):
            state.columns, state.unit = [], UNITS.get(match.group(1).lower(), 1e6)
            state.in_table = True
        elif state.head(stripped):
            continue
        elif is_cut(text, line) and stripped:
            reading.skip(line, raw, CUT_OFF)
        else:
            _take(reading, state, stripped, line)
    return reading


class _State:
    """The state of a file so far: columns, unit, and size of the arrays."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.unit, self.in_table, self.elements, self.element, self.size = 1e6, False, 0, 8, 0.0

    def head(self, line: str) -> bool:
        """Read a line of the head; return whether it was one."""
        if match := _COUNT.match(line):
            self.elements = int(match.group(1))
        elif line.startswith("Precision:"):
            self.element = 4 if "float" in line or "single" in line else 8
        elif match := _SIZE.match(line):
            self.size = (positive(match.group(1)) or 0.0) * SIZES[match.group(2)]
        else:
            return False
        return True

    @property
    def each(self) -> int:
        """Return the bytes of an array: exactly from its elements, or else the rounded size."""
        return self.elements * self.element if self.elements else round(self.size)


def _take(reading: LogReading, state: _State, line: str, number: int) -> None:
    values = cells(line) if state.columns else line.split()
    if not values or values[0].lower() not in PATTERNS:
        if values and (state.columns or state.in_table) and values[0].lower() == "nstream":
            reading.skip(
                number, line, "Nstream is not read, because tools count its bytes differently"
            )
        return
    if state.columns:
        row = _csv_row(state.columns, values, number)
    elif len(values) >= 5 and state.each:
        mean, rate = positive(values[4]), positive(values[1])
        row = (
            _row(values[0], state.each, state.element, mean, rate, state.unit, line=number)
            if mean and rate
            else "no time or no rate"
        )
    else:
        row = f"{len(values)} of 5 columns" if state.each else "no array size above the table"
    if isinstance(row, str):
        reading.skip(number, line, row)
    else:
        reading.rows.append(row)


def _csv_row(columns: list[str], values: list[str], number: int) -> Row | str:
    if len(values) != len(columns):
        return f"{len(values)} columns, the header has {len(columns)}"
    named = dict(zip(columns, values, strict=True))
    unit = next(
        (UNITS.get(m.group(1).lower()) for name in columns if (m := _CSV_RATE.match(name))), None
    )
    rate = next((positive(value) for name, value in named.items() if _CSV_RATE.match(name)), None)
    count, element, mean = (
        whole(named.get("n_elements", "")),
        whole(named.get("sizeof", "")),
        positive(named.get("avg_runtime", "")),
    )
    if not (count and element and mean):
        return "no number of elements, no size or no time"
    return _row(values[0], count * element, element, mean, rate or 0.0, unit or 1e6, line=number)
