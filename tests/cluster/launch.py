"""Start one torchrun in each namespace, as an operator would on each node.

Arguments: INTERFACE NAMESPACE... -- COMMAND...
"""

import os
import signal
import subprocess
import sys
import time

PORT = 29_500


def main(arguments: list[str]) -> int:
    """Run the command as one rank in each namespace; the first that fails ends the others."""
    cut = arguments.index("--")
    interface, *namespaces = arguments[:cut]
    command = arguments[cut + 1 :]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": interface, "TP_SOCKET_IFNAME": interface}
    nodes = [
        subprocess.Popen(
            [
                "ip",
                "netns",
                "exec",
                namespace,
                sys.executable,
                "-m",
                "torch.distributed.run",
                f"--nnodes={len(namespaces)}",
                f"--node-rank={index}",
                "--nproc-per-node=1",
                "--master-addr=10.77.0.1",
                f"--master-port={PORT}",
                "--monitor-interval=0.1",
                "--no-python",
                *command,
            ],
            env=environment,
        )
        for index, namespace in enumerate(namespaces)
    ]

    def end(_number: int, _frame: object) -> None:
        for node in nodes:
            node.terminate()

    signal.signal(signal.SIGTERM, end)
    while any(node.poll() is None for node in nodes):
        if any(node.poll() for node in nodes):
            end(0, None)
        time.sleep(0.05)
    return next((node.returncode for node in nodes if node.returncode), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
