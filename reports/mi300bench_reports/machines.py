"""Records by machine, with the name of each machine for its headings."""

from collections.abc import Iterable

from mi300bench.schema.record import Measurement, Origin
from mi300bench.store.newest import machine_of


def by_machine(records: Iterable[Measurement]) -> dict[str, tuple[Measurement, ...]]:
    """Return the records of each machine by its name, which is empty where there is one machine.

    What several tools logged on one machine counts as one machine.
    """
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for record in records:
        *machine, source = machine_of(record)
        shown_source = "" if record.origin is Origin.IMPORTED else source
        groups.setdefault((*machine, shown_source), []).append(record)
    if len(groups) == 1:
        return {"": tuple(*groups.values())}
    return {
        " ".join(part for part in parts if part and part != Origin.MEASURED): tuple(own)
        for parts, own in groups.items()
    }
