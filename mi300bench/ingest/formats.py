"""The table of formats: how each is recognised, and what reads it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mi300bench.errors import PlanError, RecordError
from mi300bench.ingest import benchmarks, collectives, memory, products, telemetry, transferbench
from mi300bench.ingest.reading import LogReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One tool's format."""

    is_it: Callable[[str], bool]
    read: Callable[[str], LogReading]


# Tried in this order: the formats with the most specific marks come first.
FORMATS: Mapping[str, Format] = {
    "pytest-benchmark": Format(is_it=benchmarks.is_ours, read=benchmarks.read),
    "rccl-json": Format(is_it=collectives.is_json, read=collectives.read_json),
    "rccl-csv": Format(is_it=collectives.is_csv, read=collectives.read_csv),
    "transferbench": Format(is_it=transferbench.is_ours, read=transferbench.read),
    "hipblaslt": Format(is_it=products.is_blas, read=products.read_blas),
    "mamf": Format(is_it=products.is_mamf, read=products.read_mamf),
    "babelstream": Format(is_it=memory.is_ours, read=memory.read),
    "rccl": Format(is_it=collectives.is_table, read=collectives.read_table),
    "rocm-smi": Format(is_it=telemetry.is_ours, read=telemetry.read),
}


def read(text: str, *, kind: str, name: str) -> LogReading:
    """Return what is in a text; the kind ``auto`` recognises its format.

    Raises `PlanError` for an unknown kind and `RecordError` for a text of no known format.
    """
    if kind != "auto" and kind not in FORMATS:
        raise PlanError(f"unknown format {kind!r}", hint=f"one of {', '.join(FORMATS)}, or auto")
    if kind != "auto":
        return FORMATS[kind].read(text)
    looks = [key for key, known in FORMATS.items() if known.is_it(text)]
    if not looks:
        raise RecordError(f"{name} has no known format", hint=_hint(text, name))
    reading = FORMATS[looks[0]].read(text)
    for other in looks[1:]:
        reading.skip(
            1, "", f"the file looks like {other} too; read that part with --format {other}"
        )
    return reading


def _hint(text: str, name: str) -> str:
    """Return what to do with a text of no known format."""
    if name.endswith((".gz", ".zst", ".xz", ".zip")) or text[:2] == "\x1f\ufffd":
        return "unpack the file first"
    if "TransferBench" in text:
        return "only TransferBench's CSV can be read: run it with OUTPUT_TO_CSV=1"
    if "MAMF" in text or "mamf" in text:
        return (
            "a log of mamf-finder needs lines with (mean), (median) and (max): "
            "use a version that prints them"
        )
    return f"give --format, one of {', '.join(FORMATS)}"
