"""rccl-tests and nccl-tests: their table, nccl-tests' JSON, rccl-tests' JSON and CSV.

The JSON of nccl-tests is read in file versions 1 to 3; rccl-tests writes its own with -Z json and
-Z csv. Time is in microseconds, bandwidth in GB (1e9) per second. Out-of-place and in-place are two
points. The operation is in the line that concludes a test, in its command, or in the JSON record.
A table without any of these is read as `all_reduce`, and its records say so. A log may have several
tests: each table has the ranks of the list above it and the operation of its own last line.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mi300bench.ingest.reading import (
    SHOWN,
    LogReading,
    Row,
    cells,
    clean,
    is_cut,
    number,
    positive,
    seconds_of,
    whole,
)
from mi300bench.schema.record import Scalar, Work

TOOL = "rccl-tests"
GB = 1e9
TYPES = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "f8e4m3": "float8_e4m3",
    "f8e5m2": "float8_e5m2",
    "fp8_e4m3": "float8_e4m3",
    "fp8_e5m2": "float8_e5m2",
}
OPS = {
    "all_reduce": "all_reduce",
    "allreduce": "all_reduce",
    "all_gather": "all_gather",
    "allgather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "broadcast": "broadcast",
    "sendrecv": "send_recv",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "alltoallv": "alltoallv",
    "hypercube": "hypercube",
}
_PROGRAM = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|sendrecv|reduce|gather|scatter"
    r"|hypercube)_perf\b"
)
_RANK = re.compile(r"^#\s+Rank\s+(\d{1,6})\s.*?device\s+\S+\s+\[[^\]]{0,40}\]\s*(.*)$")
# A message of the library, which another output stream may write into the middle of a row.
_MESSAGE = re.compile(r"\S{1,200}:\d+:\d+ \[\d+\] (?:N|R)CCL (?:INFO|WARN|TRACE|ERROR).*$")
HEAD = ("size", "count", "type", "redop", "root")
RESULT = ("time", "algbw", "busbw", "#wrong")


def is_table(text: str) -> bool:
    """Return whether a text is the table of rccl-tests or nccl-tests."""
    return (
        bool(re.search(r"#\s+size\s+count(?:\s|\()", text[:200_000]))
        or "Collective test concluded" in text
    )


def is_json(text: str) -> bool:
    """Return whether a text is the JSON of rccl-tests or nccl-tests."""
    start = text.lstrip()[:4000]
    return start[:1] in "{[" and (
        '"busBw"' in start or ('"nccl_version"' in text and '"results"' in text)
    )


def is_csv(text: str) -> bool:
    """Return whether a text is the CSV of rccl-tests."""
    lowered = text[:4000].lower()
    return "numcycle" in lowered and "busbw" in lowered


def _columns(line: str) -> list[str] | None:
    words = line.lstrip("# ").split()
    return words if words[:1] == ["size"] and "time" in words and "busbw" in words else None


def _row(
    op: str,
    head: Mapping[str, str],
    result: Mapping[str, str],
    *,
    in_place: bool,
    ranks: int,
    line: int,
) -> Row | str:
    """Return one result, or the reason why it cannot be read."""
    size, micros = whole(head.get("size", "")), positive(result.get("time", ""))
    if size is None or size <= 0:
        return "no size" if size is None else "a message of zero bytes has no bandwidth"
    if micros is None:
        return "no time"
    params: dict[str, Scalar] = {
        "bytes": size,
        "dtype": TYPES.get(head.get("type", ""), head.get("type", "")),
    }
    redop, root = head.get("redop", ""), head.get("root", "")
    params |= {"redop": redop} if redop not in ("", "none", "sum") else {}
    params |= {"root": root} if root not in ("", "-1") else {}
    params |= {"in_place": True} if in_place else {}
    stated = {
        f"stated_{name}": (value * GB,)
        for name, value in (
            ("algbw", number(result.get("algbw", ""))),
            ("busbw", number(result.get("busbw", ""))),
        )
        if value  # 0.00 is a bandwidth too small for two decimals
    }
    errors = number(result.get("#wrong", ""))
    return Row(
        probe=f"collective.{op}",
        params=params,
        line=line,
        seconds=(seconds_of(micros),),
        work=Work(message_bytes=float(size)),
        ranks=ranks,
        stated=stated,
        wrong=f"{errors:g} wrong elements" if errors else "",
    )


class _Table:
    """The state of a table so far: operation, columns, ranks, and the broken row before.

    `start` is the first row of this test; `is_listed` while its list of ranks is being read;
    `left` is the beginning of a row that another output stream broke.
    """

    def __init__(self, op: str) -> None:
        self.op = op
        self.columns, self.ranks, self.is_in_place = [*HEAD, *RESULT, *RESULT], 0, False
        self.left, self.seen = "", set[tuple[str, ...]]()
        self.start, self.is_listed = 0, False

    def head(self, reading: LogReading, raw: str) -> bool:
        """Read a line that is not a row; return whether it was one."""
        if named := _PROGRAM.search(raw):
            # The operation of the rows below; in the line that concludes a test, of those above.
            self.op = OPS[named.group(1)]
            if "concluded" in raw:
                _rename(reading, self.op, first=self.start)
        if match := _RANK.match(raw):
            if not self.is_listed and len(reading.rows) > self.start:
                self.ranks = 0  # the list of another test begins
            self.is_listed = True
            self.ranks = max(self.ranks, int(match.group(1)) + 1)
            reading.device = reading.device or match.group(2).strip()[:80]
        elif columns := _columns(raw):
            self.columns, self.is_listed = columns, False
            if len(reading.rows) > self.start:
                self.start, self.seen = len(reading.rows), set()
        elif raw.startswith("#"):
            if "in-place" in raw:  # the line above the columns names the kinds of runs
                self.is_in_place = "out-of-place" not in raw
        else:
            return False
        return True

    def words(self, raw: str, *, is_cut: bool) -> tuple[list[str], bool]:
        """Return the words of a row with its broken beginning, and whether it had a message."""
        had_message = _MESSAGE.search(raw) is not None
        words = _MESSAGE.sub("", f"{self.left} {raw}").split()
        if (
            "redop" in self.columns
            and len(words) > (place := self.columns.index("redop"))
            and number(words[place]) is not None
        ):
            words.insert(place, "")  # early versions leave the column empty without a reduction
        if is_cut and len(words) < len(self.columns):
            words = words[:-1]  # the last number of a file that was cut off may be incomplete
        return words, had_message


def read_table(text: str) -> LogReading:
    """Return the rows of a table, with the ranks and the device from its head."""
    reading, programs = LogReading(tool=TOOL), _PROGRAM.findall(text)
    if not programs:
        reading.conditions["operation"] = "not stated in the log, read as all_reduce"
    table = _Table(OPS[programs[-1]] if programs else "all_reduce")
    for line, raw in clean(text):
        if table.head(reading, raw):
            continue
        words, had_message = table.words(raw, is_cut=is_cut(text, line))
        was_left, table.left = table.left, ""
        if not words or whole(words[0]) is None:
            continue
        if len(words) >= _least(table.columns):
            if was_left:
                reading.skipped = [s for s in reading.skipped if s.text != was_left[:SHOWN]]
            _take(reading, words, table, line=line, raw=raw)
        elif had_message or not was_left:
            # If another output stream broke the line, the next one is its rest.
            table.left = " ".join(words)
            if not had_message:
                reading.skip(
                    line,
                    table.left,
                    f"{len(words)} of at least {_least(table.columns)} columns: incomplete",
                )
    return reading


def _rename(reading: LogReading, op: str, *, first: int) -> None:
    """Give the rows from `first` on the operation that the line below them states."""
    reading.rows[first:] = [replace(row, probe=f"collective.{op}") for row in reading.rows[first:]]


def _least(columns: list[str]) -> int:
    return columns.index("busbw") + 1


def _take(reading: LogReading, words: list[str], table: _Table, *, line: int, raw: str) -> None:
    """Add the results of one row; a row that several ranks print counts once."""
    columns, seen = table.columns, table.seen
    if tuple(words) in seen:
        reading.skip(line, raw, "a copy of a row above, printed by another rank")
        return
    seen.add(tuple(words))
    first = columns.index("time")
    head = dict(zip(columns[:first], words[:first], strict=False))
    width = (
        columns[first + 1 :].index("time") + 1
        if "time" in columns[first + 1 :]
        else len(columns) - first
    )
    taken = 0
    for place, start in enumerate(range(first, len(columns), width)):
        names, values = columns[start : start + width], words[start : start + width]
        if "busbw" not in names or len(values) < names.index("busbw") + 1:
            break
        in_place = table.is_in_place or place == 1
        row = _row(
            table.op,
            head,
            dict(zip(names, values, strict=False)),
            in_place=in_place,
            ranks=table.ranks,
            line=line,
        )
        if isinstance(row, str):
            if place == 0:
                reading.skip(line, raw, row)
                return
            continue
        reading.rows.append(row)
        taken += 1
    if not taken:
        reading.skip(line, raw, "no result in the row")


def _objects(text: str) -> Iterator[Any]:
    """Yield the JSON values of a text, one after the other; None at the first invalid one."""
    decoder, place = json.JSONDecoder(), 0
    while place < len(text):
        while place < len(text) and text[place] in " \t\r\n,[]":
            place += 1
        if place >= len(text):
            return
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            yield None
            return
        yield value


def read_json(text: str) -> LogReading:
    """Return the rows of nccl-tests' or rccl-tests' JSON."""
    reading = LogReading(tool=TOOL, counts="entry")
    cleaned = "\n".join(line for _, line in clean(text))
    for place, value in enumerate(_objects(cleaned), 1):
        if value is None:
            reading.skip(
                cleaned.count("\n") + 1,
                "",
                "the JSON is invalid from here on; what comes before was read",
            )
        elif isinstance(value, dict) and "results" in value:
            _nccl_document(reading, value)
        elif isinstance(value, dict) and "busBw" in value:
            _rccl_record(reading, value, place)
        else:
            reading.skip(place, str(value), "no result")
    return reading


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value)


def _nccl_document(reading: LogReading, document: Mapping[str, Any]) -> None:
    devices = document.get("devices")
    ranks = len(devices) if isinstance(devices, list) else 0
    first = (
        devices[0] if ranks and isinstance(devices, list) and isinstance(devices[0], dict) else {}
    )
    reading.device = _text(first.get("device_info"))[:80]
    reading.conditions |= {
        "nccl_version": _text(document.get("nccl_version")),
        "file_version": _text(document.get("version")),
    }
    arguments = document.get("args")
    program = (
        _PROGRAM.search(" ".join(_text(a) for a in arguments))
        if isinstance(arguments, list)
        else None
    )
    results = document.get("results")
    for place, row in enumerate(results if isinstance(results, list) else [], 1):
        if not isinstance(row, dict):
            reading.skip(place, _text(row), "no result")
            continue
        named = OPS.get(_text(row.get("experiment_name")).lower().removesuffix("_perf"))
        op = named or (OPS[program.group(1)] if program else "all_reduce")
        head = {name: _text(row.get(name)).strip() for name in HEAD}
        for key, in_place in (("out_of_place", False), ("in_place", True)):
            part = row.get(key)
            if not isinstance(part, dict):
                continue
            result = {
                "time": _text(part.get("time", part.get("cpu_time"))),
                "algbw": _text(part.get("alg_bw")),
                "busbw": _text(part.get("bus_bw")),
                "#wrong": _text(part.get("nwrong")),
            }
            _add(
                reading,
                _row(op, head, result, in_place=in_place, ranks=ranks, line=place),
                place,
                str(part),
            )


def _rccl_record(reading: LogReading, record: Mapping[str, Any], place: int) -> None:
    op = OPS.get(_text(record.get("name")).lower().replace(" ", ""))
    if op is None:
        reading.skip(place, _text(record.get("name")), "unknown operation")
        return
    head = {
        "size": _text(record.get("size")),
        "type": _text(record.get("type")),
        "redop": _text(record.get("redop")),
    }
    result = {
        "time": _text(record.get("time")),
        "algbw": _text(record.get("algBw")),
        "busbw": _text(record.get("busBw")),
        "#wrong": _text(record.get("wrong")),
    }
    ranks = whole(_text(record.get("ranks", record.get("gpus")))) or 0
    in_place = _text(record.get("inPlace")) in ("1", "True", "true")
    _add(
        reading,
        _row(op, head, result, in_place=in_place, ranks=ranks, line=place),
        place,
        str(record),
    )


def _add(reading: LogReading, row: Row | str, line: int, text: str) -> None:
    if isinstance(row, str):
        reading.skip(line, text, row)
    else:
        reading.rows.append(row)


def read_csv(text: str) -> LogReading:
    """Return the rows of rccl-tests' CSV; early versions leave ``nodes`` out of the header."""
    reading = LogReading(tool=TOOL)
    columns: list[str] = []
    for line, raw in clean(text):
        values = cells(raw)
        if not values or not any(values):
            continue
        lowered = [value.lower() for value in values]
        if "busbw" in lowered:
            columns = lowered
            continue
        if len(values) == len(columns) + 1 and "ranks" in columns and "nodes" not in columns:
            columns = [*columns[:2], "nodes", *columns[2:]]
        if not columns or len(values) != len(columns):
            reading.skip(
                line,
                raw,
                f"{len(values)} columns, the header has {len(columns)}"
                if columns
                else "a row above the header",
            )
            continue
        named = dict(zip(columns, values, strict=True))
        record = {
            "name": named.get("collective", named.get("name", "")),
            "size": named.get("size"),
            "type": named.get("type"),
            "redop": named.get("redop"),
            "time": named.get("time"),
            "algBw": named.get("algbw"),
            "busBw": named.get("busbw"),
            "wrong": named.get("wrong"),
            "ranks": named.get("ranks", named.get("gpus")),
            "inPlace": named.get("inplace"),
        }
        _rccl_record(reading, record, line)
    return reading
