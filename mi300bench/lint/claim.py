"""A claim: figures that somebody states about a subject, for the linter to check.

A claim is read from a file, or made from a record or a config. Figures are in base units (seconds,
bytes, FLOP, their rates). A figure that the claim does not state is absent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Figure = float | str | tuple[float | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement. `kind` selects the rules; `subject` and `source` are for the reader."""

    id: str
    kind: str
    subject: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    source: str = ""
    origin: str = "published"

    def number(self, name: str) -> float | None:
        """Return a figure as a number; None if it is not stated."""
        value = self.figures.get(name)
        return float(value) if isinstance(value, int | float) else None

    def text(self, name: str) -> str:
        """Return a figure as text; empty if it is not stated."""
        value = self.figures.get(name, "")
        return value if isinstance(value, str) else ""

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of numbers; empty if it is not stated."""
        value = self.figures.get(name, ())
        return tuple(float(v) for v in value) if isinstance(value, tuple) else ()
