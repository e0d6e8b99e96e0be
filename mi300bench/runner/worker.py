"""The process of one rank: ``python -m mi300bench.runner.worker``, started by torch's launcher or alone.

Every rank on the session's machine connects to its socket and says hello, so that the session sees at
once which one dies. Rank 0 takes points from the session and hands them to the others. A rank whose
session is gone ends itself.
"""

import argparse
import contextlib
import json
import os
import queue
import socket
import sys
import threading
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


def point_to_message(point: Point) -> Message:
    """Return a point as JSON."""
    return asdict(point)


def point_from_message(message: Message) -> Point:
    """Return the point of a JSON message."""
    return Point(
        **(message | {"world": World(**message["world"]), "stop": Stop(**message["stop"])})
    )


class Line:
    """The line to the session, or none where the session is on another machine."""

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
        os._exit(
            0
        )  # the session is gone: nobody wants the result, and a collective may hold the main thread

    def say(self, message: Message) -> None:
        """Send one message to the session."""
        if self._out is not None:
            with contextlib.suppress(OSError):
                self._out.write(json.dumps(message) + "\n")
                self._out.flush()

    def next(self) -> Message:
        """Return the session's next message."""
        return self._messages.get()


def describe_failure(cause: BaseException) -> str:
    """Return an exception as one line for a record."""
    text = " ".join(str(cause).split()) or type(cause).__name__
    return text if isinstance(cause, Mi300benchError) else f"{type(cause).__name__}: {text}"


def node_facts(device: Any) -> Message:
    """Return what the framework says of `device`, as JSON."""
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


# What srun tells a task, under the names that torch reads.
SLURM_NAMES = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS", "LOCAL_RANK": "SLURM_LOCALID"}


def take_place_from_slurm() -> None:
    """Take rank, world size and local rank from srun where no torch launcher has set them."""
    if "RANK" not in os.environ and all(name in os.environ for name in SLURM_NAMES.values()):
        os.environ.update({name: os.environ[slurm] for name, slurm in SLURM_NAMES.items()})


def is_usable(device: Any) -> bool:
    """Return whether the device still works after a failure; an error that sticks to a GPU's context shows here."""
    try:
        device.synchronize()
    except Exception:  # noqa: BLE001 - whatever it is, the device is not usable
        return False
    return True


def serve(line: Line, rank: Rank) -> None:
    """Measure what the session asks for until it says stop."""
    alone = rank.group.ranks == 1
    while True:
        message = rank.group.agree(line.next() if rank.group.rank == 0 else None)
        if "stop" in message:
            return
        if "describe" in message:
            if rank.group.rank == 0:
                line.say({"described": node_facts(rank.device)})
            continue
        try:
            record = rank.measure(point_from_message(message["point"]))
        except Exception as cause:
            traceback.print_exc()
            line.say(
                {
                    "failed": describe_failure(cause),
                    "rank": rank.group.rank,
                    "usable": alone and is_usable(rank.device),
                }
            )
            if not alone:
                raise SystemExit(1) from cause
        else:
            if rank.group.rank == 0:
                line.say({"record": encode(record)})


def main(arguments: list[str]) -> None:
    """Run one rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--launcher", default="")
    parser.add_argument("--framework", default="torch")
    options = parser.parse_args(arguments)
    take_place_from_slurm()
    line = Line(options.socket)
    number = int(os.environ.get("RANK", "0"))
    line.say({"hello": number, "pid": os.getpid(), "host": socket.gethostname()})
    try:
        device = open_device(options.device, framework=options.framework, threads=options.threads)
        group = join_world(device, ranks=options.ranks, limit_s=options.limit)
        if group.ranks != options.ranks:
            raise Mi300benchError(
                f"the launcher made {group.ranks} ranks, {options.ranks} were asked for",
                hint="let --ranks agree",
            )
        rank = Rank(device, group, launcher=options.launcher)
    except Exception as cause:
        traceback.print_exc()
        line.say(
            {
                "failed": describe_failure(cause),
                "rank": number,
                "usable": False,
                "node": isinstance(cause, Mi300benchError),
            }
        )
        raise SystemExit(1) from cause
    line.say({"ready": number})
    serve(line, rank)
    line.say({"bye": number})
    sys.stdout.flush()
    os._exit(0)  # frameworks' thread pools need no farewell, and a hung one must not keep the rank


if __name__ == "__main__":
    main(sys.argv[1:])
