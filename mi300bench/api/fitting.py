"""Curves through records, each with its range, its held-out error and its record ids."""

from collections.abc import Sequence

from mi300bench.errors import RecordError
from mi300bench.fit.gemm import GemmModel, fit_gemm
from mi300bench.fit.link import LinkModel, fit_link
from mi300bench.fit.roofline import MemoryCurve, fit_memory
from mi300bench.schema.record import Measurement
from mi300bench.store.newest import newest_passes
from mi300bench.store.select import require_comparable, select


def fit_collective(records: Sequence[Measurement], op: str, *, ranks: int) -> LinkModel:
    """Return the time over size of a collective among `ranks`: latency, bandwidth and knee.

    `op` is its name, such as ``all_reduce``.
    """
    rows = [r for r in select(records, f"collective.{op}", inflight=None) if r.world.ranks == ranks]
    return fit_link(_points(rows, f"{op} among {ranks} ranks", "mi300bench collectives"))


def fit_bandwidth(
    records: Sequence[Measurement], pattern: str, *, variant: str = "op"
) -> MemoryCurve:
    """Return the bandwidth over footprint of a pattern such as ``copy``, with the caches' knees."""
    rows = [
        record
        for record in select(records, f"memory.{pattern}")
        if record.params.get("variant", "op") == variant
    ]
    return fit_memory(_points(rows, f"memory.{pattern} ({variant})", "mi300bench hbm"))


def fit_products(records: Sequence[Measurement], *, dtype: str) -> GemmModel:
    """Return the time of any matrix product of a data type such as ``bfloat16``, on one rank."""
    rows = [r for r in select(records, "gemm", dtype=dtype) if r.world.ranks == 1]
    return fit_gemm(_points(rows, f"{dtype} products", "mi300bench gemm-sweep"))


def _points(records: Sequence[Measurement], what: str, command: str) -> list[Sequence[Measurement]]:
    """Return the passes of each point.

    Raises `RecordError` if there is no record, or if records must not be compared.
    """
    if not records:
        raise RecordError(f"there is no record of {what}", hint=f"measure it: {command}")
    require_comparable(records, what=what)
    return list(newest_passes(records))
