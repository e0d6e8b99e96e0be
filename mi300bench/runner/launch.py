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

from mi300bench.errors import NodeError, PlanError
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

    def measure(self, point: Point, *, within_s: float | None = None) -> Measurement: ...

    def describe(self) -> Message: ...

    def close(self) -> None: ...


OpenWorker = Callable[[World, Mapping[str, str]], Worker]


def _command(world: World, launcher: str, socket_path: Path, limit_s: float) -> list[str]:
    module = ["-m", "mi300bench.runner.worker"]
    options = [
        f"--socket={socket_path}",
        f"--device={world.device}",
        f"--ranks={processes(world)}",
        f"--framework={world.framework}",
        f"--threads={world.threads}",
        f"--limit={limit_s}",
    ]
    if launcher:
        return [*shlex.split(launcher), sys.executable, *module, *options, f"--launcher={launcher}"]
    if processes(world) == 1:
        return [sys.executable, *module, *options]
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--monitor-interval=0.1",
    ]
    # Its own folder for logs, which else stays behind in the temporary folder when the launcher is ended.
    logs = f"--log-dir={socket_path.parent / 'elastic'}"
    return [
        *torchrun,
        logs,
        f"--nproc-per-node={world.ranks}",
        *module,
        *options,
        "--launcher=torchrun",
    ]


def processes(world: World) -> int:
    """Return how many processes a world has: one a rank under torch, one for all devices under JAX."""
    return 1 if world.framework == "jax" else world.ranks


def _devices(world: World) -> dict[str, str]:
    """Return what gives JAX as many devices as the world has ranks: on a CPU virtual ones."""
    if world.framework != "jax" or world.device != "cpu":
        return {}
    flags = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={world.ranks}"
    )
    return {"XLA_FLAGS": flags.strip(), "JAX_PLATFORMS": "cpu"}


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
        self._ranks: list[_Rank] = []
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
                        **_meeting_place(launcher),
                        **_devices(world),
                        **environment,
                    },
                    start_new_session=True,
                )
            except (OSError, ValueError) as cause:
                self._close_lines()
                raise PlanError(
                    f"the ranks cannot be started: {cause}", hint="look at --launch"
                ) from cause
        try:
            self._wait_for("ready", START_LIMIT_S, "starting")
        except BaseException:
            self.close()
            raise

    def measure(self, point: Point, *, within_s: float | None = None) -> Measurement:
        """Return the record of `point`; `PointFailed` or `WorkerLost` otherwise. `within_s` shortens the limit."""
        self._is_busy = True
        self._say({"point": point_to_message(point)})
        limit_s = self._limit_s if within_s is None else min(self._limit_s, within_s)
        answer = self._wait_for("record", limit_s, f"measuring {point.probe}")
        self._is_busy = False
        return decode(answer)

    def describe(self) -> Message:
        """Return what the framework says of the device."""
        self._say({"describe": True})
        described: Message = self._wait_for("described", self._limit_s, "describing the device")
        return described

    def close(self) -> None:
        """End the ranks: ask, then terminate, then kill."""
        if self._process.poll() is None:
            with contextlib.suppress(WorkerLost, StopIteration):
                self._say({"stop": True})
        self._end(is_polite=not self._is_busy)
        self._close_lines()

    def _close_lines(self) -> None:
        for rank in self._ranks:
            rank.connection.close()
        self._selector.close()
        self._listener.close()
        self._folder.cleanup()

    def _end(self, *, is_polite: bool) -> None:
        """End launcher and ranks. A busy rank does not hear a polite word, so it is not waited for."""
        for sign in (
            (None, signal.SIGTERM, signal.SIGKILL)
            if is_polite
            else (signal.SIGTERM, signal.SIGKILL)
        ):
            if sign is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, sign)
            try:
                self._process.wait(CLOSE_LIMIT_S if sign is None else 5.0)
                break
            except subprocess.TimeoutExpired:
                continue
        for rank in self._ranks:  # the launcher's children have sessions of their own
            if (
                rank.pid
                and rank.host == socket.gethostname()
                and _is_ours(rank.pid, self._folder.name)
            ):
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
            raise WorkerLost(f"{name} ended while {doing} ({self._exit_text(rank.pid)})")
        for message in messages:
            if "hello" in message:
                rank.number, rank.pid, rank.host = message["hello"], message["pid"], message["host"]
            elif "failed" in message:
                self._failed(message)
            elif wanted in message and rank.number == 0:
                return message[wanted]
        return None

    def _failed(self, message: Message) -> None:
        said = (
            message["failed"]
            if self._world.ranks == 1
            else f"rank {message['rank']}: {message['failed']}"
        )
        if message.get("node"):
            raise NodeError(said, hint="mi300bench node shows what is here")
        if message["usable"]:
            self._is_busy = False
            raise PointFailed(said)
        raise WorkerLost(said)

    def _exit_text(self, pid: int = 0) -> str:
        """Return how the rank `pid`, or else the launcher, ended, as far as exit status and log tell."""
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


def _meeting_place(launcher: str) -> dict[str, str]:
    """Return where ranks meet that a launcher such as srun starts bare; torchrun tells its own ranks otherwise.

    Rank 0 runs on this machine, since it talks with the session.
    """
    if not launcher:
        return {}
    with socket.socket() as free:
        free.bind(("", 0))
        port = str(free.getsockname()[1])
    return {"MASTER_ADDR": os.environ.get("MASTER_ADDR", socket.gethostname()), "MASTER_PORT": port}


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
