"""What every measuring command is told: where records go, under which name, for how long, how often."""

import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mi300bench.errors import PlanError
from mi300bench.schema.record import Origin

# What hears a line that a person should read.
Say = Callable[[str], None]


def silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to measure. `deadline` is on the monotonic clock; `launcher` starts the ranks instead of torch's own."""

    store: Path = Path("runs")
    node: str = field(default_factory=socket.gethostname)
    origin: Origin = Origin.MEASURED
    source: str = ""
    launcher: str = ""
    resume: bool = False
    passes: int = 3
    limit_s: float = 300.0
    deadline: float | None = None
    say: Say = silent  # what a person should read, a line each
    # The point in flight, how many are done, of how many.
    progress: Callable[[str, int, int], None] | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.node):
            raise PlanError(
                f"the node name {self.node!r} cannot be a folder",
                hint="letters, digits, dot, dash and underscore",
            )
        if self.origin is Origin.EMULATED and not self.source:
            raise PlanError(
                "an emulated machine needs a description",
                hint='--source "two namespaces, 1 gbit/s"',
            )
        if self.passes < 1:
            raise PlanError(f"--passes must be at least 1 (got {self.passes})", hint="--passes 3")

    def remaining_s(self) -> float | None:
        """Return the seconds left of the budget, or None without one."""
        return None if self.deadline is None else self.deadline - time.monotonic()
