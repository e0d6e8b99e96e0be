"""Timing a probe: prepare, check, warm up, calibrate, sample, check again.

A sample is a batch of calls that is long enough for the clock, or a single call after a cache flush
if the probe is cold. Only `probe.call` runs between two readings of the clock. The device provides
the clock, so a test can pass a device with scripted times and get exact results.
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

# A batch of this many seconds keeps the error of the clock under 0.1 %.
BATCH_S = 2e-3
# Ranks leave the barrier at different moments; a longer batch makes this matter less.
GROUP_BATCH_S = 50e-3
MOST_CALLS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The times of a probe. `wrong` says why its answer is wrong; empty if it is right."""

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
    batch_s = GROUP_BATCH_S if group.ranks > 1 else BATCH_S
    calls = min(MOST_CALLS, max(1, math.ceil(batch_s / max(one_call_s, 1e-9))))
    return math.ceil(calls / probe.calls_multiple) * probe.calls_multiple


def _warm_up(
    probe: AbstractProbe,
    seconds: Callable[[int], float],
    stop: Stop,
    group: Group,
    now: Callable[[], float],
) -> list[float]:
    """Return the seconds per call of each batch of the warm-up; rank 0 decides when it ends."""
    times: list[float] = []
    start = now()
    batch = probe.calls_multiple
    while True:
        times.append(seconds(batch))
        is_done = (
            len(times) * batch >= stop.min_warmup_calls and now() - start >= stop.warmup_seconds
        )
        if group.agree(is_done):
            return times
        if not probe.cold:
            remaining = (stop.warmup_seconds - (now() - start)) / max(times[-1], 1e-9)
            calls = group.agree(min(MOST_CALLS, max(1, int(remaining / 4))))
            batch = math.ceil(calls / probe.calls_multiple) * probe.calls_multiple


def _sample(
    seconds: Callable[[int], float],
    calls: int,
    stop: Stop,
    group: Group,
    now: Callable[[], float],
    readings: Callable[[int], dict[str, float]],
) -> tuple[list[float], dict[str, float]]:
    """Return the samples, and the device's readings, which are taken once between two samples.

    Rank 0 decides when sampling ends: after each of the first samples, then each time the number of
    samples has grown by a quarter.
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
    """Return the times of `probe` on `device`. All ranks call this and get the same `Reading`."""
    probe.prepare()

    def seconds(calls: int) -> float:
        device.synchronize()
        group.align()
        if probe.cold:
            # On a GPU the call is enqueued while the flush still runs: no launch is timed.
            device.flush()
        return device.seconds(probe.call, calls)

    def during(calls: int) -> dict[str, float]:
        """Read the device's sensors; if calls are asynchronous, while a batch of them runs."""
        if device.is_asynchronous:
            for _ in range(calls):
                probe.call()
        sensors = device.readings()
        device.synchronize()
        return sensors

    for _ in range(probe.calls_multiple):
        probe.call()
    wrong_before = _wrong(probe, device, group)
    before = device.readings()
    warmup = _warm_up(probe, seconds, stop, group, now)
    calls = group.agree(_calls_per_sample(probe, min(warmup), group))
    own_samples, while_busy = _sample(seconds, calls, stop, group, now, during)
    readings = (before, while_busy, device.readings())
    wrong = wrong_before or _wrong(probe, device, group)
    by_rank = [tuple(times) for times in group.gather(own_samples)]
    return Reading(
        samples=tuple(max(times) for times in zip(*by_rank, strict=True)),
        warmup=tuple(warmup),
        rank_samples=tuple(by_rank) if group.ranks > 1 else (),
        calls_per_sample=calls,
        wrong=wrong,
        series=probe.series(len(own_samples)),
        readings=readings,
    )


def _wrong(probe: AbstractProbe, device: AbstractDevice, group: Group) -> str:
    """Return why the answer of the last call is wrong, for each rank where it is."""
    device.synchronize()
    reasons: list[Any] = group.gather(probe.check())
    return "; ".join(
        f"rank {rank}: {reason}" if group.ranks > 1 else reason
        for rank, reason in enumerate(reasons)
        if reason
    )
