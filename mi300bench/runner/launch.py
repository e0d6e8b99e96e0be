"""Starting the ranks of a world and talking with them.

One rank is a plain child process; several start under torch's elastic launcher, or under the command
given as `launcher` (``srun -n 16``, a torchrun on every node), which gets the worker's command appended.
"""

import contextlib
import json
import os
import re
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from mi300bench.errors import NodeError
from mi300bench.runner.worker import Message, point_to_message
from mi300bench.schema.codec import decode
from mi300bench.schema.plan import Point
from mi300bench.schema.record import Measurement, World

START_LIMIT_S = 180.0
CLOSE_LIMIT_S = 10.0


class WorkerLost(Exception):
    """A rank is gone or does not answer; the text names it."""


class PointFailed(Exception):
    """The probe raised; the worker is as good as before."""


class Worker(Protocol):
    """Measures points, one at a time."""

    def measure(self, point: Point) -> Measurement: ...

    def describe(self) -> Message: ...

    def close(self) -> None: ...


OpenWorker = Callable[[World, Mapping[str, str]], Worker]


def _command(world: World, launcher: str, socket_path: Path, limit_s: float) -> list[str]:
    module = ["-m", "mi300bench.runner.worker"]
    options = [
        f"--socket={socket_path}",
        f"--device={world.device}",
        f"--ranks={world.ranks}",
        f"--threads={world.threads}",
        f"--limit={limit_s}",
    ]
    if launcher:
        return [*shlex.split(launcher), sys.executable, *module, *options, f"--launcher={launcher}"]
    if world.ranks == 1:
        return [sys.executable, *module, *options]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--monitor-interval=0.1"]
    return [*torchrun, f"--nproc-per-node={world.ranks}", *module, *options, "--launcher=torchrun"]


class _Rank:
    """The session's end of the line to one rank."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.number = -1
        self.pid = 0
        self.host = ""
        self._buffer = b""

    def messages(self) -> list[Message] | None:
        """Return what has come in, or None where the rank has ended."""
        try:
            data = self.connection.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            return None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]


class ProcessWorker:
    """The ranks of one world in processes of their own."""

    def __init__(
        self, world: World, environment: Mapping[str, str], *, launcher: str = "", limit_s: float = 300.0
    ) -> None:
        self._world = world
        self._limit_s = limit_s
        self._folder = tempfile.TemporaryDirectory(prefix="mi300bench-")
        folder = Path(self._folder.name)
        self._log = folder / "log"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "socket"))
        self._listener.listen(world.ranks)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._ranks: list[_Rank] = []
        threads = {"OMP_NUM_THREADS": str(world.threads)} if world.threads else {}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                _command(world, launcher, folder / "socket", limit_s),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **threads, **environment},
                start_new_session=True,
            )
        try:
            self._wait_for("ready", START_LIMIT_S, "starting")
        except BaseException:
            self.close()
            raise

    def measure(self, point: Point) -> Measurement:
        """Return the record of `point`; `PointFailed` or `WorkerLost` otherwise."""
        self._say({"point": point_to_message(point)})
        return decode(self._wait_for("record", self._limit_s, f"measuring {point.probe}"))

    def describe(self) -> Message:
        """Return what the framework says of the device."""
        self._say({"describe": True})
        described: Message = self._wait_for("described", self._limit_s, "describing the device")
        return described

    def close(self) -> None:
        """End the ranks: ask, then terminate, then kill."""
        if self._process.poll() is None:
            with contextlib.suppress(OSError, StopIteration):
                self._say({"stop": True})
            self._end()
        for rank in self._ranks:
            rank.connection.close()
        self._selector.close()
        self._listener.close()
        self._folder.cleanup()

    def _end(self) -> None:
        for sign in (None, signal.SIGTERM, signal.SIGKILL):
            if sign is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, sign)
            try:
                self._process.wait(CLOSE_LIMIT_S if sign is None else 5.0)
                break
            except subprocess.TimeoutExpired:
                continue
        for rank in self._ranks:  # the launcher's children have sessions of their own
            if rank.pid and rank.host == socket.gethostname() and _is_ours(rank.pid, self._folder.name):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(rank.pid, signal.SIGKILL)

    def _say(self, message: Message) -> None:
        first = next(rank for rank in self._ranks if rank.number == 0)
        try:
            first.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as cause:
            raise WorkerLost(f"rank 0 does not listen any more: {cause.strerror}") from cause

    def _wait_for(self, wanted: str, limit_s: float, doing: str) -> Any:
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            for key, _ in self._selector.select(timeout=0.2):
                if key.fileobj is self._listener:
                    self._accept()
                    continue
                answer = self._heard(key.data, wanted, doing)
                if answer is not None:
                    return answer
            if self._process.poll() is not None and not self._selector.select(timeout=0):
                raise WorkerLost(f"the ranks ended while {doing} ({self._exit_text()})")
        raise WorkerLost(f"no answer within {limit_s:.0f} s while {doing}; the ranks were ended")

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        rank = _Rank(connection)
        self._ranks.append(rank)
        self._selector.register(connection, selectors.EVENT_READ, rank)

    def _heard(self, rank: _Rank, wanted: str, doing: str) -> Any:
        messages = rank.messages()
        if messages is None:
            self._selector.unregister(rank.connection)
            name = f"rank {rank.number} (pid {rank.pid} on {rank.host})" if rank.pid else "a rank"
            raise WorkerLost(f"{name} ended while {doing} ({self._exit_text()})")
        for message in messages:
            if "hello" in message:
                rank.number, rank.pid, rank.host = message["hello"], message["pid"], message["host"]
            elif "failed" in message:
                self._failed(message)
            elif wanted in message and rank.number == 0:
                return message[wanted]
        return None

    def _failed(self, message: Message) -> None:
        said = message["failed"] if self._world.ranks == 1 else f"rank {message['rank']}: {message['failed']}"
        if message.get("node"):
            raise NodeError(said, hint="mi300bench node shows what is here")
        raise PointFailed(said) if message["usable"] else WorkerLost(said)

    def _exit_text(self) -> str:
        """Return how the launcher or the rank ended, as far as its exit status and its log tell."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=3.0)
        with contextlib.suppress(OSError):
            text = self._log.read_text(errors="replace")
            codes = re.findall(r"exitcode\s*:\s*(-?\d+)", text)
            if codes:
                return _status(int(codes[0]))
            if self._process.returncode is None or self._process.returncode > 0:
                lines = [line.strip() for line in text.splitlines() if line.strip()]
                if lines:
                    return lines[-1][:300]
        return _status(self._process.returncode)


def _status(code: int | None) -> str:
    if code is None:
        return "its launcher is still running"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def _is_ours(pid: int, folder: str) -> bool:
    """Return whether `pid` still is the rank that we started, not a process that got its number since."""
    try:
        return folder.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
