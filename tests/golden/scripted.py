"""Records of a scripted clock: what the harness makes of known times, as lines of JSON."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, final
from unittest import mock

from mi300bench.device.base import AbstractDevice
from mi300bench.runner.group import Solo
from mi300bench.runner.rank import Rank
from mi300bench.schema.codec import encode
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.probe import AbstractProbe
from mi300bench.schema.record import Series, Work

HOST = "n1"
VARIABLES = {"OMP_NUM_THREADS": "1", "NCCL_ALGO": "Ring", "PATH": "/usr/bin"}
STEADY = (1.0, 1.0, 2.0, 2.0, 2.01, 1.99, 2.0, 2.0, 2.0)
NOISY = (1.0, 3.0, 2.0, 5.0, 1.5, 2.5, 4.0, 2.2, 3.1, 1.9, 2.4, 2.6)
# Warming up and time limits go by the real clock, so none is used.
QUICK = Stop(
    warmup_seconds=0.0, min_warmup_calls=3, max_seconds=1000.0, min_samples=7, relative_ci=0.5
)
MANY = Stop(
    warmup_seconds=0.0, min_warmup_calls=2, max_seconds=1000.0, min_samples=11, relative_ci=0.5
)


@final
class ReplayDevice(AbstractDevice):
    """A device that runs the calls and reports the next times of a script; the last one repeats."""

    name, arch, compute_units, memory_bytes, cache_bytes = "scripted", "none", 1, 1, 1024
    torch_name, backend, ever_run, is_asynchronous = "cpu", "gloo", True, False

    def __init__(self, *seconds: float) -> None:
        self.script, self.now = list(seconds), 0.0

    def seconds(self, call: Callable[[], None], calls: int) -> float:
        for _ in range(calls):
            call()
        value = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        self.now += value * calls
        return value

    def flush(self) -> None: ...

    def synchronize(self) -> None: ...

    def mark(self) -> Any:
        return self.now

    def between(self, first: Any, second: Any) -> float:
        return second - first

    def conditions(self) -> dict[str, Any]:
        return {"framework": "torch", "framework_version": "2.13.0", "threads": 1}

    def readings(self) -> dict[str, float]:
        return {"clock_hz": 2e9, "power_w": 500.0}

    def held_memory(self, call: Callable[[], None]) -> tuple[float, float]:
        raise NotImplementedError

    def peak_memory(self, call: Callable[[], None]) -> float:
        return 0.0

    def doubts(self) -> tuple[Any, ...]:
        return ()


class ScriptedCopy(AbstractProbe):
    """A copy that can give a wrong answer."""

    def work(self) -> Work:
        return Work(bytes_read=512, bytes_written=512, flop=float(self.params["flop"]))

    def prepare(self) -> None:
        self.calls = 0

    def call(self) -> None:
        self.calls += 1

    def check(self) -> str:
        return "7 of 128 elements differ" if self.params["is_wrong"] else ""

    def series(self, samples: int) -> Series:
        return {"reading": tuple(float(i) for i in range(samples)), "name": ("a", "b")}


@final
class ColdCopy(ScriptedCopy):
    """The same with a flushed cache before each sample."""

    cold: ClassVar[bool] = True


CASES = (
    ("ScriptedCopy", {"bytes": 1024, "flop": 0, "is_wrong": False}, STEADY, QUICK),
    ("ScriptedCopy", {"bytes": 2048, "flop": 8, "is_wrong": False}, NOISY, MANY),
    ("ScriptedCopy", {"bytes": 4096, "flop": 0, "is_wrong": True}, STEADY, QUICK),
    ("ColdCopy", {"bytes": 1024, "flop": 0, "is_wrong": False}, STEADY, QUICK),
)


def lines() -> Iterator[str]:
    """Yield each case's record as a line of JSON, in a process with known variables."""
    with (
        mock.patch.dict(os.environ, VARIABLES, clear=True),
        mock.patch("socket.gethostname", lambda: HOST),
    ):
        for name, params, script, stop in CASES:
            device = ReplayDevice(*script)
            point = Point(
                probe="fake.copy",
                method=3,
                target=f"tests.golden.scripted:{name}",
                params=params,
                stop=stop,
                environment={"NCCL_ALGO": "Ring"},
            )
            record = Rank(device, Solo(), launcher="none").measure(point)
            yield json.dumps(encode(record))
