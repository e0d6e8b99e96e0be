"""Choosing the records of one curve."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mi300bench.errors import RecordError
from mi300bench.schema.comparable import differences
from mi300bench.schema.record import Measurement, Outcome, Scalar


def select(records: Iterable[Measurement], probe: str, **params: Scalar) -> tuple[Measurement, ...]:
    """Return the records of `probe` that have a speed and whose parameters include `params`."""
    return tuple(
        record
        for record in records
        if record.probe == probe
        and record.outcome is Outcome.OK
        and all(record.params.get(name) == value for name, value in params.items())
    )


def require_comparable(records: Iterable[Measurement], *, what: str) -> None:
    """Raise `RecordError` if two of `records` must not be used for one curve."""
    rows = tuple(records)
    for record in rows[1:]:
        unequal = differences(rows[0], record)
        if unequal:
            reasons = "; ".join(
                f"{name}: {one!r} and {other!r}" for name, (one, other) in unequal.items()
            )
            raise RecordError(
                f"{what}: the records {rows[0].id} and {record.id} do not compare ({reasons})",
                hint="choose one side with --node, --device or another --store",
            )


def by_point(records: Iterable[Measurement]) -> Mapping[str, tuple[Measurement, ...]]:
    """Return the passes of each point by point key, in order of first appearance."""
    groups: dict[str, list[Measurement]] = defaultdict(list)
    for record in records:
        groups[record.point].append(record)
    return {key: tuple(passes) for key, passes in groups.items()}
