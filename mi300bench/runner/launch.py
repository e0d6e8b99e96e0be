"""Starting the ranks of a world and exchanging messages with them.

One rank is a child process. Several ranks start under torch's elastic agent (`local_ranks.py`), or
under the command given as `launcher` (``srun -n 16``, or a torchrun on every node); the worker's
command is appended to it.
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
from typing import Any, NoReturn, Protocol

from mi300bench.errors import NodeError, PlanError
from mi300bench.runner.worker import Message, point_to_message
from mi300bench.schema.codec import decode
from mi300bench.schema.plan import Point
from mi300bench.schema.record import Measurement, World

START_LIMIT_S = 180.0
CLOSE_LIMIT_S = 10.0
# How long a rank that lost its peer is held back, for the peer to be named.
DEAD_RANK_WAIT_S = 1.0


class WorkerLost(Exception):
    """A rank ended or does not answer. The text names the rank."""


class PointFailed(Exception):
    """The probe raised an exception; the worker can measure other points."""


class Worker(Protocol):
    """Measures one point at a time."""

    def measure(self, point: Point, *, within_s: float | None = None) -> Measurement: ...

    def describe(self) -> Message: ...

    def close(self) -> None: ...


OpenWorker = Callable[[World, Mapping[str, str]], Worker]


def _command(world: World, launcher: str, socket_path: Path, limit_s: float) -> list[str]:
    options = [
        f"--socket={socket_path}",
        f"--device={world.device}",
        f"--ranks={processes(world)}",
        f"--framework={world.framework}",
        f"--threads={world.threads}",
        f"--limit={limit_s}",
    ]
    python = [sys.executable, "-m"]
    if launcher:
        options.append(f"--launcher={launcher}")
        return [*shlex.split(launcher), *python, "mi300bench.runner.worker", *options]
    if processes(world) == 1:
        return [*python, "mi300bench.runner.worker", *options]
    return [*python, "mi300bench.runner.local_ranks", *options, "--launcher=torchrun"]


def processes(world: World) -> int:
    """Return the number of processes of a world: one per rank under torch, only one under JAX."""
    return 1 if world.framework == "jax" else world.ranks


def _virtual_devices(world: World) -> dict[str, str]:
    """Return the variables that give JAX on a CPU as many virtual devices as there are ranks."""
    if world.framework != "jax" or world.device != "cpu":
        return {}
    flags = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={world.ranks}"
    )
    return {"XLA_FLAGS": flags.strip(), "JAX_PLATFORMS": "cpu"}


class _RankConnection:
    """The session's connection to one rank."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.number = -1
        self.pid = 0
        self.host = ""
        self._buffer = b""

    def messages(self) -> list[Message] | None:
        """Return the messages that have arrived; None if the rank has ended."""
        try:
            data = self.connection.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            return None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]


class ProcessWorker:
    """The ranks of one world, each in its own process."""

    def __init__(
        self,
        world: World,
        environment: Mapping[str, str],
        *,
        launcher: str = "",
        limit_s: float = 300.0,
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
        self._ranks: list[_RankConnection] = []
        threads = {"OMP_NUM_THREADS": str(world.threads)} if world.threads else {}
        self._is_busy = False
        with self._log.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    _command(world, launcher, folder / "socket", limit_s),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={
                        **os.environ,
                        **threads,
                        **_rendezvous(launcher),
                        **_virtual_devices(world),
                        **environment,
                    },
                    start_new_session=True,
                )
            except (OSError, ValueError) as cause:
                self._close_connections()
                raise PlanError(
                    f"cannot start the ranks: {cause}", hint="check the command given as --launch"
                ) from cause
        try:
            self._wait_for("ready", START_LIMIT_S, "starting")
        except BaseException:
            self.close()
            raise

    def measure(self, point: Point, *, within_s: float | None = None) -> Measurement:
        """Return the record of `point`; raise `PointFailed` or `WorkerLost` if there is none.

        `within_s` can only shorten the time limit of the worker.
        """
        self._is_busy = True
        self._send({"point": point_to_message(point)})
        limit_s = self._limit_s if within_s is None else min(self._limit_s, within_s)
        answer = self._wait_for("record", limit_s, f"measuring {point.probe}")
        self._is_busy = False
        return decode(answer)

    def describe(self) -> Message:
        """Return what the framework reports about the device."""
        self._send({"describe": True})
        description: Message = self._wait_for("described", self._limit_s, "describing the device")
        return description

    def close(self) -> None:
        """End the ranks: send stop, then SIGTERM, then SIGKILL."""
        if self._process.poll() is None:
            with contextlib.suppress(WorkerLost, StopIteration):
                self._send({"stop": True})
        self._end(wait_for_exit=not self._is_busy)
        self._close_connections()

    def _close_connections(self) -> None:
        for rank in self._ranks:
            rank.connection.close()
        self._selector.close()
        self._listener.close()
        self._folder.cleanup()

    def _end(self, *, wait_for_exit: bool) -> None:
        """End launcher and ranks. A busy rank does not read the stop message, so do not wait."""
        signals = (signal.SIGTERM, signal.SIGKILL)
        for number in (None, *signals) if wait_for_exit else signals:
            if number is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
            try:
                self._process.wait(CLOSE_LIMIT_S if number is None else 5.0)
                break
            except subprocess.TimeoutExpired:
                continue
        for (
            rank
        ) in self._ranks:  # killpg does not reach them where a launcher gives each its own session
            if (
                rank.pid
                and rank.host == socket.gethostname()
                and _is_our_rank(rank.pid, self._folder.name)
            ):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(rank.pid, signal.SIGKILL)

    def _send(self, message: Message) -> None:
        rank_0 = next(rank for rank in self._ranks if rank.number == 0)
        try:
            rank_0.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as cause:
            raise WorkerLost(f"rank 0 closed its connection: {cause.strerror}") from cause

    def _wait_for(self, answer_key: str, limit_s: float, doing: str) -> Any:
        """Return the value of `answer_key` in a message of rank 0; `doing` is for the error."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            for key, _ in self._selector.select(timeout=0.2):
                if key.fileobj is self._listener:
                    self._accept()
                    continue
                answer = self._receive(key.data, answer_key, doing)
                if answer is not None:
                    return answer
            if self._process.poll() is not None and not self._selector.select(timeout=0):
                raise WorkerLost(f"the ranks ended while {doing} ({self._exit_text()})")
        raise WorkerLost(f"no answer within {limit_s:.0f} s while {doing}; the ranks were stopped")

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        rank = _RankConnection(connection)
        self._ranks.append(rank)
        self._selector.register(connection, selectors.EVENT_READ, rank)

    def _receive(self, rank: _RankConnection, answer_key: str, doing: str) -> Any:
        """Handle the messages of one rank; return the answer if it is among them."""
        messages = rank.messages()
        if messages is None:
            self._raise_end(rank, doing)
        for message in messages:
            if "hello" in message:
                rank.number, rank.pid, rank.host = message["hello"], message["pid"], message["host"]
            elif "failed" in message:
                if self._world.ranks > 1 and not message["usable"]:
                    self._name_dead_rank(rank, doing)
                self._raise_failure(message)
            elif answer_key in message and rank.number == 0:
                return message[answer_key]
        return None

    def _raise_end(self, rank: _RankConnection, doing: str) -> NoReturn:
        """Raise that a rank ended without a message."""
        self._selector.unregister(rank.connection)
        name = f"rank {rank.number} (pid {rank.pid} on {rank.host})" if rank.pid else "a rank"
        raise WorkerLost(f"{name} ended while {doing} ({self._exit_text(rank.pid)})")

    def _name_dead_rank(self, failed: _RankConnection, doing: str) -> None:
        """Raise where another rank ended without a message: its end is why `failed` lost its peer.

        The peer's error can arrive before the dead rank's connection is seen to close.
        """
        silent = [rank for rank in self._ranks if rank is not failed]
        deadline = time.monotonic() + DEAD_RANK_WAIT_S
        while silent and time.monotonic() < deadline:
            for key, _ in self._selector.select(timeout=0.1):
                if key.data not in silent:
                    continue
                messages = key.data.messages()
                if messages is None:
                    self._raise_end(key.data, doing)
                if any("failed" in message for message in messages):
                    silent.remove(key.data)

    def _raise_failure(self, message: Message) -> None:
        reason = message["failed"]
        if self._world.ranks > 1:
            reason = f"rank {message['rank']}: {reason}"
        if message.get("node"):
            raise NodeError(reason, hint="run mi300bench node to see the devices of this machine")
        if message["usable"]:
            self._is_busy = False
            raise PointFailed(reason)
        raise WorkerLost(reason)

    def _exit_text(self, pid: int = 0) -> str:
        """Return how the rank `pid`, or else the launcher, ended, from its exit status and log."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=3.0)
        with contextlib.suppress(OSError):
            text = self._log.read_text(errors="replace")
            codes = {
                int(p): int(code)
                for code, p in re.findall(r"exitcode\s*:\s*(-?\d+)\s*\(pid:\s*(\d+)\)", text)
            }
            if pid in codes or (codes and not pid):
                return _status(codes.get(pid, next(iter(codes.values()))))
            if self._process.returncode is None or self._process.returncode > 0:
                lines = [line.strip() for line in text.splitlines() if line.strip()]
                if lines:
                    return lines[-1][:300]
        return _status(self._process.returncode)


def _rendezvous(launcher: str) -> dict[str, str]:
    """Return the address at which the ranks of a launcher meet; torchrun sets another one.

    A launcher such as srun sets none. Rank 0 runs on this machine, where the session is.
    """
    if not launcher:
        return {}
    with socket.socket() as free_port:
        free_port.bind(("", 0))
        port = str(free_port.getsockname()[1])
    return {"MASTER_ADDR": os.environ.get("MASTER_ADDR", socket.gethostname()), "MASTER_PORT": port}


def _status(code: int | None) -> str:
    if code is None:
        return "its launcher is still running"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def _is_our_rank(pid: int, folder: str) -> bool:
    """Return whether `pid` is still our rank, and not another process that reuses its number."""
    try:
        return folder.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
