"""The table of formats: how each is recognised and read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mi300bench.errors import PlanError, RecordError
from mi300bench.importers import benchmarks, collectives, memory, products, telemetry, transferbench
from mi300bench.importers.reading import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One tool's format."""

    is_it: Callable[[str], bool]
    read: Callable[[str], Reading]


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


def read(text: str, *, kind: str, name: str) -> Reading:
    """Return what is in a text; ``auto`` recognises it. `RecordError` where it is no format that we know."""
    if kind != "auto" and kind not in FORMATS:
        raise PlanError(f"there is no format {kind!r}", hint=f"one of {', '.join(FORMATS)}, or auto")
    chosen = kind if kind != "auto" else next((key for key, known in FORMATS.items() if known.is_it(text)), None)
    if chosen is None:
        raise RecordError(f"{name} is of no format that is known here", hint=f"--format with one of {', '.join(FORMATS)}")
    return FORMATS[chosen].read(text)
