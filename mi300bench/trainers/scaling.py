"""How a trainer's step scales with devices: the same work for each (weak), or the same work for all (strong)."""

from collections.abc import Sequence

from mi300bench import stats
from mi300bench.errors import PlanError
from mi300bench.measurement import plans
from mi300bench.schema.model import Interval
from mi300bench.schema.plan import Plan, Point, Stop
from mi300bench.schema.record import Measurement, World
from mi300bench.schema.trainer import TrainerSpec

STEP = Stop(
    relative_ci=0.02, min_samples=5, max_seconds=10.0, warmup_seconds=0.0, min_warmup_calls=2
)


def scaling_plan(
    spec: TrainerSpec,
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
    if spec.mesh_model is None:
        raise PlanError(
            f"the scaling of {spec.name} cannot be measured: its devices are no mesh",
            hint="a trainer on a mesh: mi300bench scaling lora405b",
        )
    config = spec.preset(preset)
    usual = spec.settings(config, 1).batch.global_batch
    most = max(world.ranks for world in worlds)
    points: list[Point] = []
    for world in worlds:
        whole = (batch if batch is not None else usual) * (1 if is_strong else world.ranks)
        if is_strong and whole % most:
            raise PlanError(
                f"{whole} sequences do not divide among {most} devices", hint=f"--batch {most}"
            )
        mesh = {"mesh.dp": 1, "mesh.fsdp": world.ranks, "mesh.mp": 1}
        changed = spec.override(config, mesh | {"data.batch": whole})
        params = spec.point_params(changed, mesh)
        points.append(plans.point(f"{spec.name}.step", params, world, stop=STEP))
    return plans.plan(f"How does a step of {spec.name} {preset} scale?", points, passes=passes)


def efficiency(base: Sequence[Measurement], other: Sequence[Measurement]) -> Interval:
    """Return useful FLOP a second and device of `other` over those of `base`, with the interval of both."""

    def per_device(records: Sequence[Measurement]) -> Interval:
        seconds, first = stats.interval_of(records), records[0]
        work = first.work.flop / first.world.ranks
        return Interval(
            low=work / seconds.high, mid=work / seconds.mid, high=work / seconds.low
        )

    one, many = per_device(base), per_device(other)
    return Interval(low=many.low / one.high, mid=many.mid / one.mid, high=many.high / one.low)
