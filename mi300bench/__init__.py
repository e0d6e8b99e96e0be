"""Measure an MI300X node, fit a model of it, and tune training for it."""

from mi300bench.schema.record import Measurement, Outcome, Work
from mi300bench.units import Unit

__all__ = ["Measurement", "Outcome", "Unit", "Work"]
