"""rocm-smi's CSV: a header and a row for each card and sample, with or without a column of time.

The readings of a card become one record with series. The record has no speed: the tool reports how
much of the time a card is busy, and the memory that processes have allocated.
"""

import re

from mi300bench.ingest.reading import LogReading, Row, cells, clean, number
from mi300bench.schema.record import Scalar

TOOL = "rocm-smi"
NO_SPEED = "a series of readings has no speed"
_CARD = re.compile(r"^(?:card|gpu)?\s*(\d{1,4})$", re.IGNORECASE)
# Our names of the tool's columns, by how those begin; versions differ in the rest. Units are kept.
NAMES = (
    ("gpu use", "gpu_use_percent"),
    ("gpu memory allocated", "memory_percent"),
    ("gpu memory use", "memory_percent"),
    ("vram total used", "memory_used_bytes"),
    ("vram used", "memory_used_bytes"),
    ("vram total", "memory_bytes"),
    ("average graphics package power", "power_w"),
    ("current socket graphics package power", "power_w"),
    ("power", "power_w"),
    ("temperature (sensor edge", "edge_c"),
    ("temperature (sensor junction", "junction_c"),
    ("temperature (sensor memory", "memory_c"),
    ("sclk clock speed", "clock_mhz"),
    ("timestamp", "time_s"),
    ("time", "time_s"),
)


def is_ours(text: str) -> bool:
    """Return whether a text has rocm-smi's CSV columns."""
    head = text[:20_000].lower()
    return bool(
        re.search(r"\bdevice[,;].{0,400}(?:gpu use|vram|power|temperature|gpu memory)", head)
    )


def _named(column: str) -> str:
    lowered = column.lower()
    return next((ours for theirs, ours in NAMES if lowered.startswith(theirs)), "")


def _value(cell: str) -> float | None:
    word = (
        cell.strip("() ")
        .lower()
        .removesuffix("mhz")
        .removesuffix("%")
        .removesuffix("w")
        .removesuffix("c")
    )
    return number(word)


def read(text: str) -> LogReading:
    """Return a row for each card, with all its samples in order."""
    reading, columns = LogReading(tool=TOOL), list[str]()
    series: dict[str, dict[str, list[float]]] = {}
    first: dict[str, int] = {}
    for line, raw in clean(text):
        values = cells(raw.strip())
        lowered = [value.lower() for value in values]
        if "device" in lowered:
            columns = values
            continue
        if not columns or len(values) < 2:
            continue
        if len(values) != len(columns):
            reading.skip(line, raw, f"{len(values)} columns, the header has {len(columns)}")
            continue
        place = next(i for i, name in enumerate(columns) if name.lower() == "device")
        card = _CARD.match(values[place].split()[-1] if values[place].split() else "")
        if card is None:
            reading.skip(line, raw, "no number of a card")
            continue
        first.setdefault(card.group(1), line)
        named = {
            _named(column): _value(value)
            for column, value in reversed(list(zip(columns, values, strict=True)))
        }
        named.pop("", None)
        missing = [name for name, value in named.items() if value is None]
        if missing:  # a missing value would shift its series against the others
            reading.skip(line, raw, f"no number for {missing[0]}")
            continue
        own = series.setdefault(card.group(1), {})
        if own and own.keys() != named.keys():
            reading.skip(line, raw, "the columns differ from those of the card's earlier samples")
            continue
        for name, value in named.items():
            own.setdefault(name, []).append(value or 0.0)
    for card_number, columns_of_card in series.items():
        params: dict[str, Scalar] = {"card": int(card_number)}
        reading.rows.append(
            Row(
                probe="telemetry",
                params=params,
                line=first[card_number],
                stated={name: tuple(values) for name, values in columns_of_card.items()},
                ranks=1,
                no_speed=NO_SPEED,
            )
        )
    return reading
