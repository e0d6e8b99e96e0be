"""Timing one probe: prepare, check, warm up, calibrate, sample, check again.

A sample is a batch of calls long enough for the clock, or a single call after a flush where the probe
asks for a cold cache. Nothing but `probe.call` lies between the two readings of the clock. The clock is
the device's, a parameter, so that a scripted one gives exact results.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mi300bench.device.base import AbstractDevice
from mi300bench.runner.group import Group
from mi300bench.runner.stopping import is_over
from mi300bench.schema.plan import Stop
from mi300bench.schema.probe import AbstractProbe
from mi300bench.schema.record import Series

# A batch of this many seconds keeps the clock's own error under 0.1 %.
BATCH_S = 2e-3
# Ranks do not leave the barrier at the same moment; a longer chain of calls spreads that over more of them.
GROUP_BATCH_S = 50e-3
MOST_CALLS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one rank, or all together, read off the clock. `wrong` says why the answer does not count."""

    samples: tuple[float, ...]
    warmup: tuple[float, ...]
    rank_samples: tuple[tuple[float, ...], ...]
    calls_per_sample: int
    wrong: str = ""
    series: Series = field(default_factory=dict)
    readings: tuple[dict[str, float], ...] = ()


def _calls_per_sample(probe: AbstractProbe, one_call_s: float, group: Group) -> int:
    if probe.cold:
        return 1
    wanted = (GROUP_BATCH_S if group.ranks > 1 else BATCH_S) / max(one_call_s, 1e-9)
    calls = min(MOST_CALLS, max(1, math.ceil(wanted)))
    return math.ceil(calls / probe.calls_multiple) * probe.calls_multiple


def _warm_up(
    probe: AbstractProbe,
    seconds: Callable[[int], float],
    stop: Stop,
    group: Group,
    now: Callable[[], float],
) -> list[float]:
    """Return the seconds per call of the warm-up, which runs until the chip is warm, by the clock of rank 0."""
    times: list[float] = []
    start = now()
    batch = probe.calls_multiple
    while True:
        times.append(seconds(batch))
        done = len(times) * batch >= stop.min_warmup_calls and now() - start >= stop.warmup_seconds
        if group.agree(done):
            return times
        if not probe.cold:
            remaining = (stop.warmup_seconds - (now() - start)) / max(times[-1], 1e-9)
            grown = group.agree(min(MOST_CALLS, max(1, int(remaining / 4))))
            batch = math.ceil(grown / probe.calls_multiple) * probe.calls_multiple


def _sample(
    seconds: Callable[[int], float],
    calls: int,
    stop: Stop,
    group: Group,
    now: Callable[[], float],
    readings: Callable[[int], dict[str, float]],
) -> tuple[list[float], dict[str, float]]:
    """Return the samples, and the device's readings taken once among them, between two samples.

    Ranks agree after each sample while there are few, and then after every quarter more.
    """
    samples: list[float] = []
    during: dict[str, float] = {}
    start = now()
    while True:
        for _ in range(max(1, len(samples) // 4)):
            samples.append(seconds(calls))
        if group.agree(is_over(samples, stop, now() - start)):
            return samples, during
        during = during or readings(calls)


def measure(
    probe: AbstractProbe,
    device: AbstractDevice,
    stop: Stop,
    group: Group,
    *,
    now: Callable[[], float] = time.monotonic,
) -> Reading:
    """Return what `probe` took on `device`. Every rank calls this; all get the same `Reading`."""
    probe.prepare()

    def seconds(calls: int) -> float:
        device.synchronize()
        group.align()
        if probe.cold:
            device.flush()  # still under way on a GPU when the call is enqueued, so that no launch is timed
        return device.seconds(probe.call, calls)

    def during(calls: int) -> dict[str, float]:
        """Read the device at work: where calls are asynchronous, with a batch enqueued."""
        if device.is_asynchronous:
            for _ in range(calls):
                probe.call()
        found = device.readings()
        device.synchronize()
        return found

    for _ in range(probe.calls_multiple):
        probe.call()
    wrong_before = _wrong(probe, device, group)
    before = device.readings()
    warmup = _warm_up(probe, seconds, stop, group, now)
    calls = group.agree(_calls_per_sample(probe, min(warmup), group))
    mine, while_busy = _sample(seconds, calls, stop, group, now, during)
    readings = (before, while_busy, device.readings())
    wrong = wrong_before or _wrong(probe, device, group)
    by_rank = [tuple(times) for times in group.gather(mine)]
    return Reading(
        samples=tuple(max(times) for times in zip(*by_rank, strict=True)),
        warmup=tuple(warmup),
        rank_samples=tuple(by_rank) if group.ranks > 1 else (),
        calls_per_sample=calls,
        wrong=wrong,
        series=probe.series(len(mine)),
        readings=readings,
    )


def _wrong(probe: AbstractProbe, device: AbstractDevice, group: Group) -> str:
    """Return why the answer of the last call is wrong on some rank, outside the timed window."""
    device.synchronize()
    answers: list[Any] = group.gather(probe.check())
    return "; ".join(
        f"rank {rank}: {text}" if group.ranks > 1 else text
        for rank, text in enumerate(answers)
        if text
    )
