"""The table of formats: how each is recognised and read."""

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


# In the order in which they are tried: what is told by more comes first.
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
    """Return what is in a text; ``auto`` recognises it. `RecordError` where it is no format that we know."""
    if kind != "auto" and kind not in FORMATS:
        raise PlanError(
            f"there is no format {kind!r}", hint=f"one of {', '.join(FORMATS)}, or auto"
        )
    if kind != "auto":
        return FORMATS[kind].read(text)
    looks = [key for key, known in FORMATS.items() if known.is_it(text)]
    if not looks:
        raise RecordError(f"{name} is of no format that is known here", hint=_hint(text, name))
    reading = FORMATS[looks[0]].read(text)
    for other in looks[1:]:
        reading.skip(
            1, "", f"it looks like {other} as well, of which nothing was taken: --format {other}"
        )
    return reading


def _hint(text: str, name: str) -> str:
    """Return what to do with a text that no format claims."""
    if name.endswith((".gz", ".zst", ".xz", ".zip")) or text[:2] == "\x1f\ufffd":
        return "unpack it first"
    if "TransferBench" in text:
        return "TransferBench is read as CSV: run it with OUTPUT_TO_CSV=1"
    if "MAMF" in text or "mamf" in text:
        return "a log of mamf-finder needs its lines with (mean), (median) and (max), as newer versions print them"
    return f"--format with one of {', '.join(FORMATS)}"
