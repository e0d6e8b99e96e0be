"""The step of a trainer on several numbers of devices, and the efficiency of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mi300bench.api.measuring import AUTO, device_kind
from mi300bench.measurement.local_topology import default_ranks, local_topology
from mi300bench.measurement.measure import Measured, measure
from mi300bench.measurement.settings import Settings
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement, Origin, Outcome
from mi300bench.stats import interval_of
from mi300bench.store.select import by_point
from mi300bench.strategies.mesh.placement import VIRTUAL
from mi300bench.trainers.registry import spec_of
from mi300bench.trainers.scaling import efficiency, scaling_plan

DEFAULT_DEVICES = (1, 2, 4, 8, 16)
MOST_VIRTUAL_DEVICES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRow:
    """The step on one number of devices.

    `efficiency` is the FLOP per second and device, relative to those of the first row.
    """

    devices: int
    tokens: int
    seconds: Interval
    efficiency: Interval
    origin: Origin

    @property
    def tokens_per_second(self) -> float:
        """Return the tokens per second of all devices together."""
        return self.tokens / self.seconds.mid


def measure_scaling(
    trainer: str,
    settings: Settings,
    *,
    preset: str = "tiny",
    devices: Sequence[int] = (),
    batch: int | None = None,
    is_strong: bool = False,
    device: str = AUTO,
) -> Measured:
    """Measure a trainer's step on each number of `devices`.

    The default is 1, 2, 4, ... up to the GPUs of the machine, on a CPU up to 8. The devices of a
    CPU are virtual and share its cores, so their records have the origin emulated.
    """
    kind = device_kind(device)
    most = MOST_VIRTUAL_DEVICES if kind == "cpu" else default_ranks(kind)
    counts = devices or [count for count in DEFAULT_DEVICES if count <= most]
    worlds = [
        replace(local_topology(kind, count, is_absent=kind == "cpu"), framework="jax")
        for count in sorted(set(counts))
    ]
    plan = scaling_plan(
        spec_of(trainer),
        preset,
        worlds,
        batch=batch,
        is_strong=is_strong,
        passes=settings.passes,
    )
    if kind == "cpu" and settings.origin is Origin.MEASURED:
        settings = replace(settings, origin=Origin.EMULATED, source=VIRTUAL)
    return measure(plan, settings)


def scaling_rows(records: Sequence[Measurement]) -> list[ScalingRow]:
    """Return a row for each number of devices that has a speed, the smallest number first."""
    ok = [record for record in records if record.outcome is Outcome.OK]
    points = sorted(by_point(ok).values(), key=lambda passes: passes[0].world.ranks)
    rows = []
    for passes in points:
        first = passes[0]
        rows.append(
            ScalingRow(
                devices=first.world.ranks,
                tokens=int(str(first.params["data.batch"]))
                * int(str(first.params["data.seq_len"])),
                seconds=interval_of(passes),
                efficiency=efficiency(points[0], passes),
                origin=first.origin,
            )
        )
    return rows
