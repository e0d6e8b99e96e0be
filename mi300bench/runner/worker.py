"""The process of one rank: ``python -m mi300bench.runner.worker``.

Every rank on the session's machine connects to its socket and sends hello, so the session notices
at once which rank ends. Rank 0 receives points from the session and sends them to the others. A
rank ends itself when its session has ended.
"""

import argparse
import contextlib
import json
import os
import queue
import socket
import sys
import threading
import time
import traceback
from dataclasses import asdict
from typing import Any, TextIO

from mi300bench.device.open import open_device, torch_device_kind
from mi300bench.errors import Mi300benchError
from mi300bench.runner.rank import Rank, join_world
from mi300bench.schema.codec import encode
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.record import World

Message = dict[str, Any]
# A rank often fails because a peer was killed. It ends this much later than the peer, so that the
# elastic agent, which reports one rank only, reports the peer and how it ended.
PEER_FIRST_S = 0.3


def point_to_message(point: Point) -> Message:
    """Return a point as JSON."""
    return asdict(point)


def point_from_message(message: Message) -> Point:
    """Return the point of a JSON message."""
    return Point(
        **(message | {"world": World(**message["world"]), "stop": Stop(**message["stop"])})
    )


class SessionConnection:
    """The connection to the session. It drops messages if the session is on another machine."""

    def __init__(self, path: str) -> None:
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._out: TextIO | None = None
        connection = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            connection.connect(path)
            self._out = connection.makefile("w")
            threading.Thread(
                target=self._listen, args=(connection.makefile("r"),), daemon=True
            ).start()

    def _listen(self, lines: TextIO) -> None:
        with contextlib.suppress(OSError):
            for line in lines:
                self._messages.put(json.loads(line))
        # The session has ended. A collective may block the main thread, so exit from this one.
        os._exit(0)

    def send(self, message: Message) -> None:
        """Send a message to the session."""
        if self._out is not None:
            with contextlib.suppress(OSError):
                self._out.write(json.dumps(message) + "\n")
                self._out.flush()

    def receive(self) -> Message:
        """Wait for the next message of the session."""
        return self._messages.get()


def describe_failure(cause: BaseException) -> str:
    """Return an exception as one line of text, for the reason in a record."""
    text = " ".join(str(cause).split()) or type(cause).__name__
    return text if isinstance(cause, Mi300benchError) else f"{type(cause).__name__}: {text}"


def node_facts(device: Any) -> Message:
    """Return what the framework reports about `device`, as JSON."""
    return {
        "name": device.name,
        "arch": device.arch,
        "compute_units": device.compute_units,
        "memory_bytes": device.memory_bytes,
        "cache_bytes": device.cache_bytes,
        "kind": torch_device_kind() if device.torch_name else device.kind,
        "conditions": device.conditions(),
        "readings": device.readings(),
        "doubts": [str(doubt) for doubt in device.doubts()],
    }


# The variables that torch reads, and those that srun sets.
SLURM_NAMES = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS", "LOCAL_RANK": "SLURM_LOCALID"}


def read_ranks_of_slurm() -> None:
    """Set rank, world size and local rank from srun's variables, unless torchrun has set them."""
    if "RANK" not in os.environ and all(name in os.environ for name in SLURM_NAMES.values()):
        os.environ.update({name: os.environ[slurm] for name, slurm in SLURM_NAMES.items()})


def is_usable(device: Any) -> bool:
    """Return whether the device still works after a failure; some errors break a GPU's context."""
    try:
        device.synchronize()
    except Exception:  # noqa: BLE001 - with any exception the device is not usable
        return False
    return True


def serve(session: SessionConnection, rank: Rank) -> None:
    """Measure the points that the session sends until it sends stop."""
    is_single = rank.group.ranks == 1
    while True:
        message = rank.group.agree(session.receive() if rank.group.rank == 0 else None)
        if "stop" in message:
            return
        if "describe" in message:
            if rank.group.rank == 0:
                session.send({"described": node_facts(rank.device)})
            continue
        try:
            record = rank.measure(point_from_message(message["point"]))
        except Exception as cause:
            traceback.print_exc()
            session.send(
                {
                    "failed": describe_failure(cause),
                    "rank": rank.group.rank,
                    "usable": is_single and is_usable(rank.device),
                }
            )
            if not is_single:
                time.sleep(PEER_FIRST_S)
                raise SystemExit(1) from cause
        else:
            if rank.group.rank == 0:
                session.send({"record": encode(record)})


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options of a rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--launcher", default="")
    parser.add_argument("--framework", default="torch")
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> None:
    """Run one rank until the session sends stop."""
    options = parse(arguments)
    read_ranks_of_slurm()
    session = SessionConnection(options.socket)
    number = int(os.environ.get("RANK", "0"))
    session.send({"hello": number, "pid": os.getpid(), "host": socket.gethostname()})
    try:
        device = open_device(options.device, framework=options.framework, threads=options.threads)
        group = join_world(device, ranks=options.ranks, limit_s=options.limit)
        if group.ranks != options.ranks:
            raise Mi300benchError(
                f"--ranks {options.ranks}: the launcher started {group.ranks} ranks",
                hint=f"use --ranks {group.ranks}, or start {options.ranks} ranks",
            )
        rank = Rank(device, group, launcher=options.launcher)
    except Exception as cause:
        traceback.print_exc()
        session.send(
            {
                "failed": describe_failure(cause),
                "rank": number,
                "usable": False,
                "node": isinstance(cause, Mi300benchError),
            }
        )
        raise SystemExit(1) from cause
    session.send({"ready": number})
    serve(session, rank)
    session.send({"bye": number})


def main(arguments: list[str]) -> None:
    """Run one rank, which has this process to itself."""
    run(arguments)
    sys.stdout.flush()
    os._exit(0)  # a thread pool of a framework that hangs must not keep the process alive


if __name__ == "__main__":
    main(sys.argv[1:])
