"""pytest-benchmark's JSON: each benchmark with its raw rounds if they were saved, or its median."""

import json
from typing import Any

from mi300bench.ingest.reading import LogReading, Row, date_of, number
from mi300bench.schema.record import Scalar

TOOL = "pytest-benchmark"
MOST_ROUNDS = 100_000


def is_ours(text: str) -> bool:
    """Return whether a text is pytest-benchmark's JSON."""
    start = text.lstrip()[:1]
    return start == "{" and '"machine_info"' in text and '"benchmarks"' in text


def _seconds(stats: dict[str, Any]) -> tuple[float, ...]:
    data = stats.get("data")
    values = data if isinstance(data, list) and data else [stats.get("median")]
    numbers = [number(str(value)) for value in values[:MOST_ROUNDS]]
    return tuple(value for value in numbers if value is not None and value > 0)


def read(text: str) -> LogReading:
    """Return the benchmarks of a file."""
    reading = LogReading(tool=TOOL, counts="entry")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as cause:
        reading.skip(1, "", f"invalid JSON: {str(cause)[:80]}")
        return reading
    if not isinstance(document, dict) or not isinstance(document.get("benchmarks"), list):
        reading.skip(1, "", "no list of benchmarks")
        return reading
    reading.began = date_of(str(document.get("datetime", "")))
    machine = document.get("machine_info")
    cpu = machine.get("cpu") if isinstance(machine, dict) else None
    reading.device = str(cpu.get("brand_raw", ""))[:80] if isinstance(cpu, dict) else ""
    for place, row in enumerate(document["benchmarks"], 1):
        stats = row.get("stats") if isinstance(row, dict) else None
        name = str(row.get("fullname", row.get("name", "")))[:200] if isinstance(row, dict) else ""
        seconds = _seconds(stats) if isinstance(stats, dict) else ()
        if not name or not seconds:
            reading.skip(place, str(row), "no name or no positive time")
            continue
        given = row.get("params")
        params: dict[str, Scalar] = {"name": name}
        if isinstance(given, dict):
            params |= {str(key)[:60]: str(value)[:60] for key, value in given.items()}
        if (
            isinstance(stats, dict)
            and isinstance(stats.get("data"), list)
            and len(stats["data"]) > MOST_ROUNDS
        ):
            reading.skip(
                place,
                name,
                f"only the first {MOST_ROUNDS:,} of {len(stats['data']):,} rounds are read",
            )
        reading.rows.append(
            Row(probe="pytest-benchmark", params=params, line=place, seconds=seconds, ranks=1)
        )
    return reading
