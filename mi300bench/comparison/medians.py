"""A side of a comparison: for each point the medians of its processes, and of earlier runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Medians:
    """A point on one side.

    `seconds` are the medians of its processes in the newest run, `earlier` the median of each run
    before, by run id, oldest first.
    """

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
        """Return the log of the median over processes; one disturbed process cannot move it."""
        return math.log(float(np.median(self.seconds)))

    @property
    def by_run(self) -> dict[str, float]:
        """Return the logarithm of each run's median by run id, the newest run last."""
        return {run: math.log(seconds) for run, seconds in self.earlier.items()} | {
            self.run: self.middle
        }


# Points by their keys.
Side = Mapping[str, Medians]


def families(keys: Sequence[str], side: Side) -> dict[str, list[str]]:
    """Return the keys of each family, in order."""
    by_family: dict[str, list[str]] = {}
    for key in keys:
        by_family.setdefault(side[key].family, []).append(key)
    return by_family
