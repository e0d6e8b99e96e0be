"""The newest run of a point, as the tuner, reports and compare define it.

Runs of a point are ordered by their start, then by run id. Records without a date come first.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from mi300bench.schema.record import Measurement, Outcome

Key = TypeVar("Key", bound=Hashable)


def began(records: Iterable[Measurement]) -> str:
    """Return the earliest start of some records; empty if no record has a date."""
    return min((record.started_at for record in records if record.started_at), default="")


def machine_of(record: Measurement) -> tuple[str, ...]:
    """Return what identifies a machine: node, device, origin and source."""
    return record.node, record.device, str(record.origin), record.source


def point_of(record: Measurement) -> tuple[str, ...]:
    """Return what identifies a point on a machine."""
    return *machine_of(record), record.point


def runs_by_point(
    records: Iterable[Measurement], key: Callable[[Measurement], Key]
) -> dict[Key, list[list[Measurement]]]:
    """Return the runs of each point, the newest last; `key` identifies a point."""
    points: dict[Key, dict[str, list[Measurement]]] = {}
    for record in records:
        points.setdefault(key(record), {}).setdefault(record.run, []).append(record)
    return {
        name: sorted(runs.values(), key=lambda run: (began(run), run[0].run))
        for name, runs in points.items()
    }


def newest_passes(
    records: Iterable[Measurement], *, key: Callable[[Measurement], Hashable] = point_of
) -> list[tuple[Measurement, ...]]:
    """Return, for each point, its passes with a speed in the newest run that has any.

    `key` identifies a point; by default, points of different machines are different.
    """
    ok = (record for record in records if record.outcome is Outcome.OK)
    return [tuple(runs[-1]) for runs in runs_by_point(ok, key).values()]


def newest_records(records: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return the records of `newest_passes`, in the order of `records`."""
    kept = {id(record) for passes in newest_passes(records) for record in passes}
    return tuple(record for record in records if id(record) in kept)
