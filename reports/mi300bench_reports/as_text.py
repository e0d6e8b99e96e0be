"""Quantities and parameters as text, the same way in every section."""

from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement
from mi300bench.units import Unit, format_quantity


def seconds(value: float) -> str:
    """Return seconds as text."""
    return format_quantity(value, Unit.SECOND)


def seconds_range(interval: Interval) -> str:
    """Return seconds with the bounds of their interval as text."""
    return f"{seconds(interval.mid)} ({seconds(interval.low)} to {seconds(interval.high)})"


def byte_rate(value: float) -> str:
    """Return bytes per second as text."""
    return format_quantity(value, Unit.BYTE_PER_SECOND)


def flop_rate(value: float) -> str:
    """Return FLOP per second as text."""
    return format_quantity(value, Unit.FLOP_PER_SECOND)


def params(record: Measurement) -> str:
    """Return the parameters of a record as text."""
    return " ".join(f"{name}={value}" for name, value in record.params.items())
