"""Published numbers with their sources. An unknown device has no peak, not that of another."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files

from mi300bench.units import Unit

# The memory that a driver reports may differ from the data sheet: part is reserved, units differ.
SAME_MEMORY = 0.12
# Parts of the names of products that the table may not have.
PRODUCTS = ("MI3", "MI2", "H100", "H200", "GH200", "H20", "H800", "B100", "B200", "B300")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A published number. `source` names the document."""

    value: float
    unit: Unit
    source: str
    read_on: date
    formula: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """The published facts of one device."""

    key: str
    name: str
    arch: str
    match: tuple[str, ...]
    compute_units: int
    others: tuple[str, ...]  # parts of names of other products, which must not match
    facts: Mapping[str, Fact]

    def is_named_in(self, name: str) -> bool:
        """Return whether the driver's device name is that of this product."""
        if any(word.lower() in name.lower() for word in self.others):
            return False
        # No letter may precede the name: GH200 is not an H200.
        return any(
            re.search(rf"(?<![A-Za-z]){re.escape(part)}", name, re.IGNORECASE)
            for part in self.match
        )


@cache
def device_table() -> tuple[DeviceFacts, ...]:
    """Return all devices that we have facts about."""
    document = tomllib.loads((files("mi300bench.hw") / "data" / "facts.toml").read_text())
    return tuple(
        DeviceFacts(
            key=key,
            name=table["name"],
            arch=table["arch"],
            match=tuple(table["match"]),
            compute_units=table["compute_units"],
            others=tuple(table.get("others", ())),
            facts={
                name: Fact(**(fact | {"unit": Unit(fact["unit"])}))
                for name, fact in table["facts"].items()
            },
        )
        for key, table in document["devices"].items()
    )


def find_device(
    name: str, *, arch: str = "", compute_units: int = 0, memory_bytes: float = 0
) -> DeviceFacts | None:
    """Return the facts of the device with the driver's name `name`, or None.

    A driver may report no useful name (ROCm in some containers). Then the architecture decides, if
    the number of compute units and the memory agree too: gfx942 is also the MI300A, the MI325X and
    a partition of an MI300X.
    """
    for device in device_table():
        if device.is_named_in(name):
            return device if compute_units in (0, device.compute_units) else None
    same_figures = [
        device
        for device in device_table()
        if arch.split(":")[0] == device.arch
        and compute_units == device.compute_units
        and (
            not memory_bytes
            or abs(memory_bytes / device.facts["memory_bytes"].value - 1) < SAME_MEMORY
        )
    ]
    names_product = any(product in name.upper() for product in PRODUCTS)  # one without facts
    return same_figures[0] if len(same_figures) == 1 and not names_product else None


def peak_fraction(achieved: float, peak: Fact | None) -> float | None:
    """Return achieved over peak; None if no peak is published."""
    return None if peak is None else achieved / peak.value
