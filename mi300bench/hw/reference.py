"""Is a number normal? What others measured on the same device under the same conditions, as far as they told them."""

import tomllib
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files

from mi300bench.units import Unit, format_quantity

# A message size or a shape's work counts as the same up to this factor; beyond it nothing comparable is published.
SAME_SIZE = 4.0
# A product below this many FLOP is not what anybody published a rate of.
LEAST_FLOP = 1e11
# From this message size on a collective's bandwidth is level.
LEVEL_BYTES = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A measurement that somebody published. `quantity` is a probe's name; a size of 0 was not told."""

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
        """Return who measured it, and how."""
        return f"{self.source} ({self.method})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """The published range for a value, who published it, and what that says of the value."""

    low: float
    high: float
    rows: tuple[Published, ...]
    value: float

    @property
    def said(self) -> str:
        """Return the answer as words."""
        unit = self.rows[0].unit
        low, high = (format_quantity(v, unit) for v in (self.low, self.high))
        within = f"{low}" if self.low == self.high else f"{low} to {high}"
        place = (
            "above"
            if self.value > 1.1 * self.high
            else "below"
            if self.value < 0.9 * self.low
            else "within"
        )
        names = "; ".join(dict.fromkeys(row.source for row in self.rows))
        return f"{place} what is published ({within}: {names})"


@cache
def published() -> tuple[Published, ...]:
    """Return every published measurement that we know."""
    document = tomllib.loads((files("mi300bench.hw") / "data" / "reference.toml").read_text())
    return tuple(Published(**(row | {"unit": Unit(row["unit"])})) for row in document["measured"])


def _alike(told: float, asked: float) -> bool:
    return not told or (asked > 0 and 1 / SAME_SIZE <= told / asked <= SAME_SIZE)


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
    """Return the published range for `quantity` on `device` (a key of the facts), or None where nothing comparable is published.

    Types and ranks have to agree where they were told, sizes up to a factor of 4. Products count from 100 GFLOP on, where rates
    level out. Bandwidth of memory is of one type or another alike.
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
        and _alike(row.bytes, size)
    )
    if not rows:
        return None
    values = [row.value for row in rows]
    return Normal(low=min(values), high=max(values), rows=rows, value=value)


def level_busbw(device: str, op: str, ranks: int) -> Published | None:
    """Return the middle one of the busbw that are published of large messages among `ranks` of a device, None without any."""
    rows = [
        row
        for row in published()
        if (row.device, row.quantity, row.ranks) == (device, f"collective.{op}", ranks)
    ]
    rows = sorted((row for row in rows if row.bytes >= LEVEL_BYTES), key=lambda row: row.value)
    return rows[(len(rows) - 1) // 2] if rows else None


def busbw_among(device: str, ranks: int) -> tuple[float, str] | None:
    """Return the busbw of a large all_reduce among `ranks` of a device, and who says so; None where nobody does.

    Where that number of ranks is not published it is a pair's, times the links to the others: right for GPUs that are all linked.
    """
    exact, pair = level_busbw(device, "all_reduce", ranks), level_busbw(device, "all_reduce", 2)
    if exact is not None:
        return exact.value, exact.cited
    if pair is None:
        return None
    return (
        ranks - 1
    ) * pair.value, f"{ranks - 1} times the busbw of a pair: a link to each GPU ({pair.cited})"
