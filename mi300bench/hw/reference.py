"""Is a number normal? Published measurements of the same device under the same conditions.

Conditions are compared as far as they are published.
"""

import tomllib
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files

from mi300bench.units import Unit, format_quantity

# Message sizes compare up to this factor.
SAME_SIZE = 4.0
# Published rates are of products of at least this many FLOP.
LEAST_FLOP = 1e11
# From this message size on, the bandwidth of a collective no longer grows.
LEVEL_BYTES = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published measurement. `quantity` is the name of a probe; 0 or empty is not published."""

    device: str
    quantity: str
    value: float
    unit: Unit
    method: str
    source: str
    read_on: date
    dtype: str = ""
    ranks: int = 0
    bytes: int = 0
    m: int = 0
    n: int = 0
    k: int = 0

    @property
    def cited(self) -> str:
        """Return the source and its method as text."""
        return f"{self.source} ({self.method})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """A value with the published range that it compares with, and the rows of that range."""

    low: float
    high: float
    rows: tuple[Published, ...]
    value: float

    @property
    def position(self) -> str:
        """Return whether the value is above, below or within the range, give or take a tenth."""
        if self.value > 1.1 * self.high:
            return "above"
        return "below" if self.value < 0.9 * self.low else "within"

    @property
    def as_text(self) -> str:
        """Return the position, the range and its sources as text."""
        unit = self.rows[0].unit
        low, high = (format_quantity(v, unit) for v in (self.low, self.high))
        published_range = low if self.low == self.high else f"{low} to {high}"
        sources = "; ".join(dict.fromkeys(row.source for row in self.rows))
        return f"{self.position} the published range ({published_range}: {sources})"


@cache
def published() -> tuple[Published, ...]:
    """Return all published measurements in the table."""
    document = tomllib.loads((files("mi300bench.hw") / "data" / "reference.toml").read_text())
    return tuple(Published(**(row | {"unit": Unit(row["unit"])})) for row in document["measured"])


def _is_similar(published_size: float, size: float) -> bool:
    if not published_size:
        return True
    return size > 0 and 1 / SAME_SIZE <= published_size / size <= SAME_SIZE


def normal(
    device: str,
    quantity: str,
    value: float,
    *,
    dtype: str = "",
    ranks: int = 1,
    size: float = 0,
    flop: float = 0,
) -> Normal | None:
    """Return the published range for `quantity` on `device`; None if nothing comparable is known.

    `device` is a key of the facts. Published types and ranks must be equal, published sizes within
    a factor of 4. Products compare from 100 GFLOP on, where rates level out. Memory bandwidth does
    not depend on the type.
    """
    if quantity == "gemm" and flop < LEAST_FLOP:
        return None
    rows = tuple(
        row
        for row in published()
        if row.device == device
        and row.quantity == quantity
        and (not row.dtype or row.dtype == dtype)
        and (not row.ranks or row.ranks == ranks)
        and _is_similar(row.bytes, size)
    )
    if not rows:
        return None
    values = [row.value for row in rows]
    return Normal(low=min(values), high=max(values), rows=rows, value=value)


def level_busbw(device: str, op: str, ranks: int) -> Published | None:
    """Return the median of the published busbw for large messages among `ranks`; None if none."""
    rows = [
        row
        for row in published()
        if (row.device, row.quantity, row.ranks) == (device, f"collective.{op}", ranks)
    ]
    rows = sorted((row for row in rows if row.bytes >= LEVEL_BYTES), key=lambda row: row.value)
    return rows[(len(rows) - 1) // 2] if rows else None


def busbw_among(device: str, ranks: int) -> tuple[float, str] | None:
    """Return the busbw of a large all_reduce among `ranks`, and its source; None if not published.

    If this number of ranks is not published, the result is the busbw of two ranks times the links
    to the others. This is right if each GPU has a link to each other GPU.
    """
    exact, pair = level_busbw(device, "all_reduce", ranks), level_busbw(device, "all_reduce", 2)
    if exact is not None:
        return exact.value, exact.cited
    if pair is None:
        return None
    source = f"{ranks - 1} times the busbw of a pair: a link to each GPU ({pair.cited})"
    return (ranks - 1) * pair.value, source
