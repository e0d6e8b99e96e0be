"""Measuring in the ranks of an external launcher: torchrun or srun on several nodes.

Every rank runs the same command. Rank 0 is the session and also measures; the others follow it.
"""

import os
import time
from typing import final

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

# A failed rank waits this long before it exits, so that rank 0 can record the failure.
FAILURE_DELAY_S = 5.0


def is_joined() -> bool:
    """Return whether an external launcher started this process as one of its ranks."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def launched_ranks() -> int:
    """Return the number of ranks that the launcher started."""
    return int(os.environ["WORLD_SIZE"])


@final
class JoinedWorker:
    """This process as a rank of the launcher's group. A failure makes the whole group unusable."""

    def __init__(self, *, device: str, threads: int, limit_s: float) -> None:
        torch_device = open_torch_device(device, threads=threads)
        group = join_world(torch_device, ranks=launched_ranks(), limit_s=limit_s)
        self._rank = Rank(torch_device, group, launcher="outside")
        self._failure = ""

    @property
    def number(self) -> int:
        """Return the rank of this process."""
        return self._rank.group.rank

    def measure(self, point: Point, *, within_s: float | None = None) -> Measurement:
        """Return the record of `point`, measured by all ranks within the group's time limit."""
        del within_s
        if self._failure:
            raise WorkerLost(f"the ranks failed at an earlier point: {self._failure}")
        if point.world.ranks != self._rank.group.ranks:
            raise PointFailed(
                f"the point needs {point.world.ranks} ranks, "
                f"but the launcher started {self._rank.group.ranks}"
            )
        try:
            self._rank.group.agree({"point": point_to_message(point)})
            return self._rank.measure(point)
        except Exception as cause:  # whatever a probe raises becomes a failed record
            self._failure = describe_failure(cause)
            raise WorkerLost(self._failure) from cause

    def describe(self) -> Message:
        """Return what the framework reports about the device of this rank."""
        return node_facts(self._rank.device)

    def close(self) -> None:
        """Do nothing: the group exists as long as the command."""

    def follow(self) -> None:
        """Measure the points that rank 0 sends until it sends stop. For ranks other than 0."""
        while "stop" not in (message := self._rank.group.agree(None)):
            try:
                self._rank.measure(point_from_message(message["point"]))
            except Exception:
                # When this process exits, the launcher ends rank 0, which must record the failure.
                time.sleep(FAILURE_DELAY_S)
                raise

    def dismiss(self) -> None:
        """Tell the other ranks to end. For rank 0."""
        if not self._failure:
            self._rank.group.agree({"stop": True})


def require_joined(ranks: tuple[int, ...]) -> None:
    """Raise `NodeError` if `ranks` has other numbers than that of the launcher's ranks."""
    launched = launched_ranks()
    if set(ranks) - {launched}:
        raise NodeError(
            f"--ranks {','.join(map(str, ranks))}: the launcher started {launched} ranks",
            hint=f"omit --ranks, use --ranks {launched}, or start the launcher with other ranks",
        )
