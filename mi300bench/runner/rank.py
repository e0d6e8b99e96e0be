"""One rank of a world measures points: it makes the probe, times it, and writes the record's facts down."""

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

# A clock this far under the published one is a throttle, not jitter.
CLOCK_DROP = 0.9


class Rank:
    """A process's part in a world: its device and its place among the ranks."""

    def __init__(self, device: AbstractDevice, group: Group, *, launcher: str) -> None:
        self.device = device
        self.group = group
        self._launcher = launcher
        self._hosts = ",".join(dict.fromkeys(group.gather(socket.gethostname())))

    def measure(self, point: Point) -> Measurement:
        """Return the record of `point`; run, node and origin are the session's to fill in."""
        module, name = point.target.split(":")
        probe_class: type[AbstractProbe] = getattr(importlib.import_module(module), name)
        probe = probe_class(
            point.params, RankContext(rank=self.group.rank, ranks=point.world.ranks, device=self.device)
        )
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
        told = {
            name: "/".join(f"{moment.get(name, 0):.6g}" for moment in reading.readings)
            for name in ("clock_hz", "power_w", "temperature_c")
            if any(name in moment for moment in reading.readings)
        }
        return {
            **self.device.conditions(),
            **told,
            "backend": self.device.backend if point.world.ranks > 1 else "",
            "flush_bytes": self.device.flush_bytes,
            "hosts": self._hosts,
            "launcher": self._launcher,
        }

    def _doubts(
        self, point: Point, probe: AbstractProbe, reading: Reading, work: Work
    ) -> tuple[Doubt, ...]:
        own = probe.doubts()
        found: list[Doubt | None] = [
            *self.device.doubts(),
            *own,
            doubt_of(reading.samples, point.stop),
        ]
        published = facts.find_device(
            self.device.name, arch=self.device.arch, compute_units=self.device.compute_units
        )
        if published is not None:
            seconds = stats.typical(reading.samples)
            if not own:  # a footprint in cache may well pass the memory's peak
                moved = stats.bandwidth(work, seconds)
                found.append(
                    _above(moved, published.facts.get("memory_bandwidth"), Unit.BYTE_PER_SECOND)
                )
            rate = stats.flop_rate(work, seconds)
            found.append(
                _above(
                    rate, published.facts.get(str(point.params.get("dtype"))), Unit.FLOP_PER_SECOND
                )
            )
            found.append(_clock_drop(reading, published.facts.get("clock")))
        return tuple(doubt for doubt in found if doubt is not None)


def _above(seen: float, peak: facts.Fact | None, unit: Unit) -> AbovePeak | None:
    if peak is None or seen <= peak.value:
        return None
    return AbovePeak(seen=seen, peak=peak.value, unit=str(unit), peak_source=peak.source)


def _clock_drop(reading: Reading, promised: facts.Fact | None) -> ClockDropped | None:
    during = reading.readings[1].get("clock_hz") if reading.readings else None
    if promised is None or not during or during >= CLOCK_DROP * promised.value:
        return None
    return ClockDropped(seen_hz=during, promised_hz=promised.value)


def join_world(device: AbstractDevice, *, ranks: int, limit_s: float) -> Group:
    """Return the group of this process: alone, or the ranks that a launcher has set up in the environment."""
    if ranks == 1 and "RANK" not in os.environ:
        return Solo()
    return TorchGroup(backend=device.backend, limit_s=limit_s)
