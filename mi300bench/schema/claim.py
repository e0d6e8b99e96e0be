"""A claim: figures that somebody states, with what they are about. Read from a file, or made from a record or a config.

Figures are in base units (seconds, bytes, FLOP, their rates); what a claim does not state is absent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Figure = float | str | tuple[float | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement. `kind` says which rules read it; `subject` is how a person would call it; `source` is where it stands."""

    id: str
    kind: str
    subject: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    source: str = ""
    origin: str = "published"

    def number(self, name: str) -> float | None:
        """Return a figure as a number, None where it is not stated."""
        value = self.figures.get(name)
        return float(value) if isinstance(value, int | float) else None

    def text(self, name: str) -> str:
        """Return a figure as text, empty where it is not stated."""
        value = self.figures.get(name, "")
        return value if isinstance(value, str) else ""

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of numbers, empty where it is not stated."""
        value = self.figures.get(name, ())
        return tuple(float(v) for v in value) if isinstance(value, tuple) else ()
