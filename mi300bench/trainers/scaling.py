"""How a step scales with devices: weak (same work per device) or strong (same work in all)."""

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
    """Return the plan of a step in each world, with the weights sharded over all devices (fsdp).

    `batch` is in sequences per device, or in all if the scaling is strong; None is the preset's.
    """
    if spec.mesh_model is None:
        raise PlanError(
            f"the scaling of {spec.name} cannot be measured: it does not train on a mesh",
            hint="use a trainer on a mesh: mi300bench scaling lora405b",
        )
    config = spec.preset(preset)
    preset_batch = spec.settings(config, 1).batch.global_batch
    most = max(world.ranks for world in worlds)
    points: list[Point] = []
    for world in worlds:
        sequences = batch if batch is not None else preset_batch
        whole = sequences * (1 if is_strong else world.ranks)
        if is_strong and whole % most:
            raise PlanError(
                f"a batch of {whole} sequences cannot be divided among {most} devices",
                hint=f"choose a multiple of {most}, such as --batch {most}",
            )
        mesh = {"mesh.dp": 1, "mesh.fsdp": world.ranks, "mesh.mp": 1}
        changed = spec.override(config, mesh | {"data.batch": whole})
        params = spec.point_params(changed, mesh)
        points.append(plans.point(f"{spec.name}.step", params, world, stop=STEP))
    return plans.plan(f"How does a step of {spec.name} {preset} scale?", points, passes=passes)


def efficiency(base: Sequence[Measurement], other: Sequence[Measurement]) -> Interval:
    """Return the FLOP per second and device of `other`, relative to those of `base`."""

    def per_device(records: Sequence[Measurement]) -> Interval:
        seconds, first = stats.interval_of(records), records[0]
        work = first.work.flop / first.world.ranks
        return Interval(low=work / seconds.high, mid=work / seconds.mid, high=work / seconds.low)

    one, many = per_device(base), per_device(other)
    return Interval(low=many.low / one.high, mid=many.mid / one.mid, high=many.high / one.low)
