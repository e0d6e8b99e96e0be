"""Why gloo's all_to_all reaches half of a link among two ranks.

    python -m tests.cluster.exchange

The same exchange of 32 MiB each way, once as all_to_all, once with the receive announced before
anything is sent. gloo sends only to a receiver that has announced itself. In a chain of all_to_alls
the earlier rank's announcement queues behind the later rank's data, so the link works one way at a
time; announced beforehand, it works both ways.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from mi300bench.units import MIB

from tests.cluster.namespaces import cluster

PART_BYTES = 32 * MIB
ROUNDS = 7
RATE = 1e9


def timed(call: Callable[[], None]) -> float:
    """Return the median seconds of a call, of the slower rank."""
    seconds = []
    for _ in range(ROUNDS):
        dist.barrier()
        start = time.perf_counter()
        call()
        slowest = torch.tensor([time.perf_counter() - start])
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        seconds.append(float(slowest))
    return statistics.median(seconds[1:])


def rank_main() -> None:
    """Time both exchanges on this rank; rank 0 prints."""
    dist.init_process_group("gloo")
    elements = PART_BYTES // 4
    sent, received = torch.ones(2 * elements), torch.empty(2 * elements)
    mine, theirs, partner = torch.ones(elements), torch.empty(elements), 1 - dist.get_rank()

    def chained() -> None:
        for _ in range(3):
            dist.all_to_all_single(received, sent)

    def announced() -> None:
        for _ in range(3):
            pending = dist.irecv(theirs, src=partner)
            dist.barrier()
            dist.send(mine, dst=partner)
            assert pending is not None
            pending.wait()

    for name, call in (("all_to_all", chained), ("receive announced first", announced)):
        rate = PART_BYTES / (timed(call) / 3)
        if dist.get_rank() == 0:
            print(
                f"{name:24}  {rate / 1e6:7.1f} MB/s each way at once, "
                f"{rate / float(os.environ['GOODPUT']):.2f} of the goodput"
            )
    os._exit(0)


def main() -> int:
    """Start both ranks in a cluster of 1 gbit/s."""
    with cluster(rate_bits=RATE) as made:
        command = [*made.launcher.split(), sys.executable, "-m", "tests.cluster.exchange", "rank"]
        return subprocess.run(
            command, env={**os.environ, "GOODPUT": str(made.goodput)}, check=False
        ).returncode


if __name__ == "__main__":
    if sys.argv[1:] == ["rank"]:
        rank_main()
    else:
        sys.exit(main())
