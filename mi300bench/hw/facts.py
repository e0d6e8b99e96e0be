"""Published numbers with their sources. An unknown device has no peak; there is no fallback to another chip."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files

from mi300bench.units import Unit

# What a driver reports and what a data sheet prints differ by reserved memory and by units.
SAME_MEMORY = 0.12


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A published number. `source` names the document it stands in."""

    value: float
    unit: Unit
    source: str
    read_on: date
    formula: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What is published of one device."""

    key: str
    name: str
    arch: str
    match: tuple[str, ...]
    compute_units: int
    others: tuple[str, ...]  # words of another product's name
    facts: Mapping[str, Fact]

    def is_named_in(self, name: str) -> bool:
        """Return whether a driver's name states this product."""
        if any(word.lower() in name.lower() for word in self.others):
            return False
        return any(
            re.search(rf"(?<![A-Za-z]){re.escape(part)}", name, re.IGNORECASE)
            for part in self.match
        )  # GH200 is no H200


@cache
def device_table() -> tuple[DeviceFacts, ...]:
    """Return all devices we have facts of."""
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
    """Return the facts of the device called `name`, or None.

    Where a driver gives no useful name (ROCm in some containers), the architecture decides, provided that the count of compute
    units and the memory agree: gfx942 is also the MI300A, the MI325X, and a partition of an MI300X.
    """
    for device in device_table():
        if device.is_named_in(name):
            return device if compute_units in (0, device.compute_units) else None
    by_arch = [
        device
        for device in device_table()
        if arch.split(":")[0] == device.arch
        and compute_units == device.compute_units
        and (
            not memory_bytes
            or abs(memory_bytes / device.facts["memory_bytes"].value - 1) < SAME_MEMORY
        )
    ]
    return by_arch[0] if len(by_arch) == 1 and not _names_another(name) else None


def _names_another(name: str) -> bool:
    """Return whether the driver's name states a product, which then is none of the table."""
    return any(
        word in name.upper()
        for word in ("MI3", "MI2", "H100", "H200", "GH200", "H20", "H800", "B100", "B200", "B300")
    )


def peak_fraction(achieved: float, peak: Fact | None) -> float | None:
    """Return achieved over peak, or None where no peak is published."""
    return None if peak is None else achieved / peak.value
