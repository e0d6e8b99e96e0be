"""The settings of a measuring command: where records go, and how long and how often to measure."""

import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mi300bench.errors import PlanError
from mi300bench.schema.record import Origin

# Takes a line for the user, such as a warning.
Say = Callable[[str], None]


def silent(_: str) -> None:
    """Discard the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to measure, and where the records go.

    `source` describes a machine that is emulated; `launcher` is a command that starts the ranks
    instead of our own; `limit_s` is the longest that a point may take; `deadline` is the end of the
    budget on the monotonic clock; `progress` takes the point in flight, how many points are done,
    and how many there are.
    """

    store: Path = Path("runs")
    node: str = field(default_factory=socket.gethostname)
    origin: Origin = Origin.MEASURED
    source: str = ""
    launcher: str = ""
    resume: bool = False
    passes: int = 3
    limit_s: float = 300.0
    deadline: float | None = None
    say: Say = silent
    progress: Callable[[str, int, int], None] | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.node):
            raise PlanError(
                f"the node name {self.node!r} cannot be the name of a folder",
                hint="use letters, digits, dot, dash and underscore; begin with a letter or digit",
            )
        if self.origin is Origin.EMULATED and not self.source:
            raise PlanError(
                "an emulated machine needs a description",
                hint='describe it, such as --source "two namespaces, 1 gbit/s"',
            )
        if self.passes < 1:
            raise PlanError(f"--passes must be at least 1 (got {self.passes})", hint="--passes 3")

    def remaining_s(self) -> float | None:
        """Return the seconds left of the budget, or None without one."""
        return None if self.deadline is None else self.deadline - time.monotonic()
