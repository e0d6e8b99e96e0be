"""Timing with a scripted clock, so that the results are exact."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, final

import pytest
from mi300bench import stats
from mi300bench.device.base import AbstractDevice
from mi300bench.runner.group import Solo
from mi300bench.runner.stopping import doubt_of, is_over
from mi300bench.runner.timing import Reading, measure
from mi300bench.schema.plan import Stop
from mi300bench.schema.probe import AbstractProbe
from mi300bench.schema.record import Work


@final
class ScriptedDevice(AbstractDevice):
    """A device that runs the calls and reports the next times of a script; the last one repeats."""

    name, arch, compute_units, memory_bytes, cache_bytes = "scripted", "none", 1, 1, 1024
    torch_name, backend, ever_run, is_asynchronous = "cpu", "gloo", True, False

    def __init__(self, *seconds: float) -> None:
        self.script = list(seconds)
        self.flushes = 0
        self.now = 0.0

    def seconds(self, call: Callable[[], None], calls: int) -> float:
        for _ in range(calls):
            call()
        value = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        self.now += value * calls
        return value

    def flush(self) -> None:
        self.flushes += 1

    def synchronize(self) -> None: ...

    def mark(self) -> Any:
        return self.now

    def between(self, first: Any, second: Any) -> float:
        return second - first

    def conditions(self) -> dict[str, Any]:
        return {}

    def readings(self) -> dict[str, float]:
        return {"clock_hz": 2e9}

    def held_memory(self, call: Callable[[], None]) -> tuple[float, float]:
        raise NotImplementedError

    def peak_memory(self, call: Callable[[], None]) -> float:
        return 0.0

    def doubts(self) -> tuple[Any, ...]:
        return ()


@final
class FakeCopy(AbstractProbe):
    """A copy that counts its calls and can go wrong after some."""

    def __init__(self, *, cold: bool = False, wrong_after: int = 10**9) -> None:
        super().__init__({}, SimpleNamespace(rank=0, ranks=1, device=None))
        self.cold, self.wrong_after, self.calls, self.prepared = cold, wrong_after, 0, 0

    def work(self) -> Work:
        return Work(bytes_read=512, bytes_written=512)

    def prepare(self) -> None:
        self.prepared += 1

    def call(self) -> None:
        self.calls += 1

    def check(self) -> str:
        return "a byte was lost" if self.calls > self.wrong_after else ""


def run(probe: FakeCopy, device: ScriptedDevice, stop: Stop) -> Reading:
    return measure(probe, device, stop, Solo(), now=lambda: device.now)


def test_a_scripted_device_gives_an_exact_bandwidth() -> None:
    device = ScriptedDevice(9.0, 9.0, 2.0, 2.0, 4.0, 2.0, 2.0)
    reading = run(
        FakeCopy(),
        device,
        Stop(min_samples=5, max_seconds=1.0, warmup_seconds=0.0, min_warmup_calls=2),
    )
    assert reading.warmup == (9.0, 9.0)
    assert reading.samples[:3] == (2.0, 2.0, 4.0)
    assert stats.bandwidth(FakeCopy().work(), stats.typical(reading.samples)) == 512.0


def test_short_calls_are_batched_until_the_clock_can_see_them() -> None:
    reading = run(FakeCopy(), ScriptedDevice(1e-6), Stop(warmup_seconds=0.0))
    assert reading.calls_per_sample * 1e-6 >= 2e-3


def test_a_cold_probe_is_flushed_before_each_single_call() -> None:
    device = ScriptedDevice(1e-6)
    reading = run(
        FakeCopy(cold=True), device, Stop(warmup_seconds=0.0, min_samples=7, max_seconds=1e-9)
    )
    assert reading.calls_per_sample == 1
    assert device.flushes == len(reading.samples) + len(reading.warmup)


def test_sampling_stops_when_the_median_is_known() -> None:
    reading = run(
        FakeCopy(), ScriptedDevice(1.0), Stop(min_samples=7, max_seconds=1e9, warmup_seconds=0.0)
    )
    assert len(reading.samples) == 7


def test_sampling_stops_when_time_is_up_but_not_below_three_samples() -> None:
    noisy = ScriptedDevice(*[1.0, 2.0, 3.0] * 50)
    reading = run(FakeCopy(), noisy, Stop(min_samples=7, max_seconds=2.5, warmup_seconds=0.0))
    assert len(reading.samples) == 3
    assert doubt_of(reading.samples, Stop()) is not None


def test_a_lost_write_is_a_wrong_answer_and_keeps_its_samples() -> None:
    reading = run(FakeCopy(wrong_after=5), ScriptedDevice(1.0), Stop(warmup_seconds=0.0))
    assert reading.wrong == "a byte was lost" and reading.samples


def test_warm_up_runs_by_the_clock_and_is_kept() -> None:
    reading = run(FakeCopy(), ScriptedDevice(0.25), Stop(warmup_seconds=2.0, max_seconds=1.0))
    assert sum(reading.warmup) >= 0.75 and set(reading.warmup) == {0.25}


def test_the_device_is_read_before_during_and_after() -> None:
    reading = run(FakeCopy(), ScriptedDevice(1.0), Stop(warmup_seconds=0.0))
    assert [moment["clock_hz"] for moment in reading.readings] == [2e9] * 3


@pytest.mark.parametrize(("elapsed", "over"), [(0.5, False), (1.0, True)])
def test_time_alone_ends_a_noisy_point(elapsed: float, over: bool) -> None:
    assert is_over([1.0, 2.0, 3.0], Stop(max_seconds=1.0), elapsed) is over
