"""The rerun of a stored record: the same probe, parameters, ranks and environment."""

from collections.abc import Iterable

from mi300bench.errors import PlanError
from mi300bench.measurement import plans
from mi300bench.probes.catalog import every_probe
from mi300bench.schema.plan import Plan, Stop
from mi300bench.schema.record import Measurement, Origin


def rerun_plan(records: Iterable[Measurement], identity: str, *, device: str, passes: int) -> Plan:
    """Return the plan that repeats the record `identity`; `PlanError` if it cannot be repeated."""
    record = next((record for record in records if record.id == identity), None)
    if record is None:
        raise PlanError(
            f"the store has no record {identity!r}",
            hint='list them: mi300bench query "SELECT id, probe FROM records"',
        )
    if record.origin is Origin.IMPORTED:
        raise PlanError(
            f"{identity} was imported ({record.source}); mi300bench cannot repeat it",
            hint="run that tool once more, and import its output",
        )
    if record.probe not in every_probe():
        raise PlanError(
            f"{identity} is a record of {record.probe}, which is not a probe",
            hint=f"to repeat a training run: mi300bench train {record.probe.partition('.')[0]}",
        )
    if device not in ("auto", record.world.device):
        raise PlanError(
            f"{identity} was measured on {record.world.device}; "
            f"with --device {device} it is another point",
            hint="leave --device out",
        )
    longest = sum(record.samples) * record.calls_per_sample
    point = plans.point(
        record.probe,
        record.params,
        record.world,
        environment=record.environment,
        stop=Stop(max_seconds=max(3.0, longest)),
    )
    return plans.plan(f"Does {identity} ({record.probe}) reproduce?", [point], passes=passes)
