"""The published peak of a record's device, and a rate as a part of it."""

from mi300bench.hw.facts import DeviceFacts, Fact, find_device, peak_fraction
from mi300bench.schema.record import Measurement


def device_facts(record: Measurement) -> DeviceFacts | None:
    """Return what is published about the device of a record; None for an unknown device."""
    return find_device(
        record.device,
        arch=str(record.conditions.get("device_arch", "")),
        compute_units=int(str(record.conditions.get("compute_units") or 0)),
    )


def published_peak(record: Measurement, name: str) -> Fact | None:
    """Return the published peak of an element type or of memory_bandwidth; None where unknown."""
    facts = device_facts(record)
    return facts.facts.get(name) if facts else None


def share_of_peak(rate: float, peak: Fact | None) -> str:
    """Return a rate as a part of the published peak, as text."""
    fraction = peak_fraction(rate, peak)
    return "no published peak" if fraction is None else f"{fraction:.0%} of the published peak"
