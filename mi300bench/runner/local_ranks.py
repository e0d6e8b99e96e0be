"""The ranks of this machine: ``python -m mi300bench.runner.local_ranks --ranks=2 ...``.

They run under torch's elastic agent, as under torchrun. torchrun starts each rank as a new Python,
which imports torch again. Here the agent's process is forked, so torch is imported once: two ranks
on two cores are ready after 1.1 s instead of 2.9 s. The agent itself never opens a device, as a
fork must not inherit one.
"""

import os
import signal
import sys
from pathlib import Path

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from mi300bench.runner import worker

AGENT_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
MONITOR_INTERVAL_S = 0.1


def one_rank(arguments: list[str]) -> None:
    """Run one rank in a fork of the agent, without the agent's handlers of signals."""
    for number in AGENT_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    worker.run(arguments)


def main(arguments: list[str]) -> None:
    """Start the ranks and wait for them; the exit status tells whether all ended well."""
    options = worker.parse(arguments)
    if options.ranks > 1:  # as torchrun does, so that ranks do not share out each other's cores
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Without a log folder of ours, the agent leaves one in the temporary folder when it is killed.
    folder = Path(options.socket).parent / "elastic"
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=options.ranks,
        run_id=folder.parent.name,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=MONITOR_INTERVAL_S,
        start_method="fork",
        logs_specs=DefaultLogsSpecs(log_dir=str(folder)),
    )
    elastic_launch(config, one_rank)(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
