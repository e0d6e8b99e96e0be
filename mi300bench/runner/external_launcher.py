"""Measuring inside a group that an outside launcher has made (torchrun or srun over several nodes).

Every rank runs the same command. Rank 0 is the session and takes part itself; the others follow it.
"""

import os
import time
from typing import Any, final

from mi300bench.device.open import open_torch_device
from mi300bench.errors import NodeError
from mi300bench.runner.launch import PointFailed, WorkerLost
from mi300bench.runner.rank import Rank, join_world
from mi300bench.runner.worker import (
    Message,
    describe_failure,
    node_facts,
    point_from_message,
    point_to_message,
)
from mi300bench.schema.plan import Point
from mi300bench.schema.record import Measurement

# What rank 0 gets to record a failure of another rank.
FAREWELL_S = 5.0


def is_joined() -> bool:
    """Return whether an outside launcher has set up ranks for this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def launched_ranks() -> int:
    """Return how many ranks the launcher made."""
    return int(os.environ["WORLD_SIZE"])


@final
class JoinedWorker:
    """This process as rank 0 of the launcher's group. A failure ends the group: its state is unknown then."""

    def __init__(self, *, device: str, threads: int, limit_s: float) -> None:
        opened = open_torch_device(device, threads=threads)
        self._rank = Rank(
            opened, join_world(opened, ranks=launched_ranks(), limit_s=limit_s), launcher="outside"
        )
        self._broken = ""

    @property
    def number(self) -> int:
        """Return this process's rank."""
        return self._rank.group.rank

    def measure(self, point: Point, *, within_s: float | None = None) -> Measurement:
        """Return the record of `point`, measured by all ranks. The group's own limit holds, not `within_s`."""
        del within_s
        if self._broken:
            raise WorkerLost(f"the group ended earlier: {self._broken}")
        if point.world.ranks != self._rank.group.ranks:
            raise PointFailed(
                f"{point.world.ranks} ranks asked for, the launcher made {self._rank.group.ranks}"
            )
        try:
            self._rank.group.agree({"point": point_to_message(point)})
            return self._rank.measure(point)
        except Exception as cause:  # whatever a probe raises becomes a failed record
            self._broken = describe_failure(cause)
            raise WorkerLost(self._broken) from cause

    def describe(self) -> Message:
        """Return what the framework says of this rank's device."""
        return node_facts(self._rank.device)

    def close(self) -> None:
        """Keep the group: it lives as long as the command."""

    def follow(self) -> None:
        """As a rank other than 0: measure what rank 0 says until it says stop."""
        while "stop" not in (message := self._rank.group.agree(None)):
            try:
                self._rank.measure(point_from_message(message["point"]))
            except Exception:
                # The launcher ends rank 0 as soon as this process is gone; rank 0 first writes down what happened.
                time.sleep(FAREWELL_S)
                raise

    def dismiss(self) -> None:
        """As rank 0: let the others end."""
        if not self._broken:
            self._rank.group.agree({"stop": True})


def require_joined(ranks: tuple[int, ...]) -> None:
    """Raise `NodeError` where other rank counts were asked for than the launcher made."""
    made: Any = launched_ranks()
    if set(ranks) - {made}:
        raise NodeError(
            f"--ranks {','.join(map(str, ranks))} was asked for, the launcher made {made} ranks",
            hint=f"leave --ranks out, or start torchrun with as many; here: --ranks {made}",
        )
