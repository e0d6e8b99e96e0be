"""The newest run of a point: one definition for tuner, report and compare.

Runs of a point are ordered by when they began, then by run id. Records without a date come first.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from mi300bench.schema.record import Measurement, Outcome

Key = TypeVar("Key", bound=Hashable)


def began(records: Iterable[Measurement]) -> str:
    """Return when the first of some records began; empty where none is dated."""
    return min((record.started_at for record in records if record.started_at), default="")


def machine_of(record: Measurement) -> tuple[str, ...]:
    """Return what tells machines apart: node, device, origin and source."""
    return record.node, record.device, str(record.origin), record.source


def point_of(record: Measurement) -> tuple[str, ...]:
    """Return what identifies a point on a machine."""
    return *machine_of(record), record.point


def runs_by_point(
    records: Iterable[Measurement], key: Callable[[Measurement], Key]
) -> dict[Key, list[list[Measurement]]]:
    """Return the records of each point run by run, the newest run last; `key` identifies a point."""
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
    """Return the passes with a speed of each point, of the newest run that has it with a speed.

    `key` identifies a point: by default on one machine.
    """
    good = (record for record in records if record.outcome is Outcome.OK)
    return [tuple(runs[-1]) for runs in runs_by_point(good, key).values()]


def newest_records(records: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return the records of `newest_passes`, in their order in `records`."""
    kept = {id(record) for passes in newest_passes(records) for record in passes}
    return tuple(record for record in records if id(record) in kept)
