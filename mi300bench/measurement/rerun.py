"""A stored record measured again: the same probe, parameters, ranks and environment."""

from collections.abc import Iterable

from mi300bench.errors import PlanError
from mi300bench.measurement import plans
from mi300bench.probes.catalog import every_probe
from mi300bench.schema.plan import Plan, Stop
from mi300bench.schema.record import Measurement, Origin


def plan_again(records: Iterable[Measurement], identity: str, *, device: str, passes: int) -> Plan:
    """Return the plan that measures the record `identity` anew; `PlanError` where it cannot be."""
    found = next((record for record in records if record.id == identity), None)
    if found is None:
        raise PlanError(
            f"the store has no record {identity!r}",
            hint='mi300bench query "SELECT id, probe FROM records"',
        )
    if found.origin is Origin.IMPORTED:
        raise PlanError(
            f"{identity} comes from {found.source}: it was not measured by us",
            hint="run that tool again, and import it",
        )
    if found.probe not in every_probe():
        raise PlanError(
            f"{identity} is a {found.probe} record, which is no probe's",
            hint="training runs: mi300bench train zaya1",
        )
    if device not in ("auto", found.world.device):
        raise PlanError(
            f"{identity} was measured on {found.world.device}, --device {device} is another point",
            hint="leave --device out",
        )
    longest = sum(found.samples) * found.calls_per_sample
    point = plans.point(
        found.probe,
        found.params,
        found.world,
        environment=found.environment,
        stop=Stop(max_seconds=max(3.0, longest)),
    )
    return plans.plan(
        f"Does {identity} ({found.probe}) come out the same again?", [point], passes=passes
    )
