"""A side of a comparison: the medians of its points' processes, and of the runs that came before."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Medians:
    """A point on one side: seconds of its processes in the newest run, and the median of each run before, by run, oldest first."""

    label: str
    family: str
    seconds: tuple[float, ...]
    evidence: tuple[str, ...]
    run: str = ""
    earlier: Mapping[str, float] = field(default_factory=dict)

    @property
    def logs(self) -> list[float]:
        """Return the logarithm of the seconds of each process."""
        return [math.log(seconds) for seconds in self.seconds]

    @property
    def middle(self) -> float:
        """Return the logarithm of the median over processes: one that was disturbed must not move it."""
        return math.log(float(np.median(self.seconds)))

    @property
    def by_run(self) -> dict[str, float]:
        """Return the logarithm of each run's median, the newest last."""
        return {run: math.log(seconds) for run, seconds in self.earlier.items()} | {
            self.run: self.middle
        }


# Points by their keys.
Side = Mapping[str, Medians]


def families(keys: Sequence[str], side: Side) -> dict[str, list[str]]:
    """Return points by family, in order."""
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(side[key].family, []).append(key)
    return found
