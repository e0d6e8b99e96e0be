"""How a trainer's step scales with devices: the same work for each (weak), or the same work for all (strong)."""

from collections.abc import Sequence

from mi300bench import stats
from mi300bench.errors import PlanError
from mi300bench.measurement import plans
from mi300bench.schema.model import Interval
from mi300bench.schema.plan import Plan, Point, Stop
from mi300bench.schema.record import Measurement, World
from mi300bench.trainers import registry

STEP = Stop(
    relative_ci=0.02, min_samples=5, max_seconds=10.0, warmup_seconds=0.0, min_warmup_calls=2
)


def scaling_plan(
    trainer: str,
    preset: str,
    worlds: Sequence[World],
    *,
    batch: int | None,
    is_strong: bool,
    passes: int,
) -> Plan:
    """Return the plan of a trainer's steps in each world, weights sharded over all devices (fsdp).

    `batch` is sequences a device, or of all devices where scaling is strong; default the preset's.
    """
    if trainer not in registry.SINGLE_PROCESS:
        raise PlanError(
            f"the scaling of {trainer} cannot be measured",
            hint=f"one of {', '.join(registry.SINGLE_PROCESS)}",
        )
    config, module = registry.preset_config(trainer, preset), registry.module(trainer, "config")
    points: list[Point] = []
    for world in worlds:
        most = max(w.ranks for w in worlds)
        whole = (batch if batch is not None else config.data.batch) * (
            1 if is_strong else world.ranks
        )
        if is_strong and whole % most:
            raise PlanError(
                f"{whole} sequences do not divide among {most} devices", hint=f"--batch {most}"
            )
        keys = {"mesh.dp": 1, "mesh.fsdp": world.ranks, "mesh.mp": 1}
        changed = module.override_all(config, keys | {"data.batch": whole})
        points.append(
            plans.point(f"{trainer}.step", module.point_params(changed, keys), world, stop=STEP)
        )
    return plans.plan(f"How does a step of {trainer} {preset} scale?", points, passes=passes)


def efficiency(base: Sequence[Measurement], other: Sequence[Measurement]) -> Interval:
    """Return useful FLOP a second and device of `other` over those of `base`, with the interval of both."""

    def per_device(records: Sequence[Measurement]) -> Interval:
        seconds, first = stats.interval_of(records), records[0]
        work = first.work.flop / first.world.ranks
        return Interval(low=work / seconds.high, mid=work / seconds.mid, high=work / seconds.low)

    one, many = per_device(base), per_device(other)
    return Interval(low=many.low / one.high, mid=many.mid / one.mid, high=many.high / one.low)
