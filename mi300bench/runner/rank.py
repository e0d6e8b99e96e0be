"""One rank of a world: it creates the probe of a point, times it and makes the record."""

import importlib
import os
import socket

from mi300bench import stats
from mi300bench.device.base import AbstractDevice
from mi300bench.hw import facts
from mi300bench.runner.group import Group, Solo, TorchGroup
from mi300bench.runner.stopping import doubt_of
from mi300bench.runner.timing import Reading, measure
from mi300bench.schema.conditions import ENVIRONMENT_PREFIXES
from mi300bench.schema.doubt import AbovePeak, ClockDropped, Doubt
from mi300bench.schema.plan import Point
from mi300bench.schema.probe import AbstractProbe, RankContext
from mi300bench.schema.record import Measurement, Outcome, Scalar, Work
from mi300bench.units import Unit

# A clock below this share of the published one is throttled; less is jitter.
CLOCK_DROP = 0.9


class Rank:
    """The device of a process and its group of ranks."""

    def __init__(self, device: AbstractDevice, group: Group, *, launcher: str) -> None:
        self.device = device
        self.group = group
        self._launcher = launcher
        self._hosts = ",".join(dict.fromkeys(group.gather(socket.gethostname())))

    def measure(self, point: Point) -> Measurement:
        """Return the record of `point`; the session fills in its run, node and origin."""
        module, name = point.target.split(":")
        probe_class: type[AbstractProbe] = getattr(importlib.import_module(module), name)
        context = RankContext(rank=self.group.rank, ranks=point.world.ranks, device=self.device)
        probe = probe_class(point.params, context)
        reading = measure(probe, self.device, point.stop, self.group)
        work = probe.work()
        return Measurement(
            probe=point.probe,
            method=point.method,
            params=dict(point.params),
            environment=dict(point.environment),
            variables={
                name: value
                for name, value in sorted(os.environ.items())
                if name.startswith(ENVIRONMENT_PREFIXES)
            },
            world=point.world,
            point=point.key,
            outcome=Outcome.WRONG_ANSWER if reading.wrong else Outcome.OK,
            reason=reading.wrong,
            samples=reading.samples,
            warmup=reading.warmup,
            rank_samples=reading.rank_samples,
            calls_per_sample=reading.calls_per_sample,
            work=work,
            series=reading.series,
            conditions=self._conditions(reading, point),
            doubts=self._doubts(point, probe, reading, work),
            device=self.device.name,
        )

    def _conditions(self, reading: Reading, point: Point) -> dict[str, Scalar]:
        sensors = {
            name: "/".join(f"{moment.get(name, 0):.6g}" for moment in reading.readings)
            for name in ("clock_hz", "power_w", "temperature_c")
            if any(name in moment for moment in reading.readings)
        }
        return {
            **self.device.conditions(),
            **sensors,
            "backend": self.device.backend if point.world.ranks > 1 else "",
            "flush_bytes": self.device.flush_bytes,
            "hosts": self._hosts,
            "launcher": self._launcher,
        }

    def _doubts(
        self, point: Point, probe: AbstractProbe, reading: Reading, work: Work
    ) -> tuple[Doubt, ...]:
        probe_doubts = probe.doubts()
        doubts: list[Doubt | None] = [
            *self.device.doubts(),
            *probe_doubts,
            doubt_of(reading.samples, point.stop),
        ]
        published = facts.find_device(
            self.device.name, arch=self.device.arch, compute_units=self.device.compute_units
        )
        if published is not None:
            seconds = stats.typical(reading.samples)
            if not probe_doubts:  # cache speed may exceed the peak of the memory
                peak = published.facts.get("memory_bandwidth")
                bandwidth = stats.bandwidth(work, seconds)
                doubts.append(_above_peak(bandwidth, peak, Unit.BYTE_PER_SECOND))
            peak = published.facts.get(str(point.params.get("dtype")))
            rate = stats.flop_rate(work, seconds)
            doubts.append(_above_peak(rate, peak, Unit.FLOP_PER_SECOND))
            doubts.append(_clock_drop(reading, published.facts.get("clock")))
        return tuple(doubt for doubt in doubts if doubt is not None)


def _above_peak(seen: float, peak: facts.Fact | None, unit: Unit) -> AbovePeak | None:
    if peak is None or seen <= peak.value:
        return None
    return AbovePeak(seen=seen, peak=peak.value, unit=str(unit), peak_source=peak.source)


def _clock_drop(reading: Reading, published: facts.Fact | None) -> ClockDropped | None:
    during = reading.readings[1].get("clock_hz") if reading.readings else None
    if published is None or not during or during >= CLOCK_DROP * published.value:
        return None
    return ClockDropped(seen_hz=during, promised_hz=published.value)


def join_world(device: AbstractDevice, *, ranks: int, limit_s: float) -> Group:
    """Return the group of this process: of one rank, or of the ranks that a launcher started."""
    if ranks == 1 and "RANK" not in os.environ:
        return Solo()
    return TorchGroup(backend=device.backend, limit_s=limit_s)
