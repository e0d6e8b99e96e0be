"""Choosing records that may meet on one curve."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mi300bench.errors import RecordError
from mi300bench.schema.comparable import differences
from mi300bench.schema.record import Measurement, Outcome, Scalar


def select(records: Iterable[Measurement], probe: str, **params: Scalar) -> tuple[Measurement, ...]:
    """Return the records with a speed of `probe` whose parameters include `params`."""
    return tuple(
        record
        for record in records
        if record.probe == probe
        and record.outcome is Outcome.OK
        and all(record.params.get(name) == value for name, value in params.items())
    )


def require_comparable(records: Iterable[Measurement], *, what: str) -> None:
    """Raise `RecordError` where two of `records` must not be put on one curve."""
    chosen = tuple(records)
    for record in chosen[1:]:
        unequal = differences(chosen[0], record)
        if unequal:
            said = "; ".join(
                f"{name}: {one!r} and {other!r}" for name, (one, other) in unequal.items()
            )
            raise RecordError(
                f"{what}: the records {chosen[0].id} and {record.id} do not compare ({said})",
                hint="choose one with --node, --device or another --store",
            )


def by_point(records: Iterable[Measurement]) -> Mapping[str, tuple[Measurement, ...]]:
    """Return the passes of each point, by point key, in order of first appearance."""
    groups: dict[str, list[Measurement]] = defaultdict(list)
    for record in records:
        groups[record.point].append(record)
    return {key: tuple(passes) for key, passes in groups.items()}
