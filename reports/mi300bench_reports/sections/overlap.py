"""Overlap: how much communication and computation slow each other while both run."""

from collections.abc import Sequence

from mi300bench.fit.overlap import fit_overlap
from mi300bench.schema.record import Measurement
from mi300bench.store.newest import newest_passes
from mi300bench.units import format_bytes

from mi300bench_reports.elements import Section, Table

COLUMNS = (
    "all-reduce",
    "matrix product",
    "ranks",
    "computation slow-down",
    "all-reduce slow-down",
    "record",
)


def overlap(records: Sequence[Measurement]) -> Section | None:
    """Return the slow-down factors of each pair of an all-reduce and a matrix product."""
    rows = []
    for passes in newest_passes(r for r in records if r.probe == "overlap"):
        model, first = fit_overlap([passes]), passes[0]
        params = first.params
        rows.append(
            (
                format_bytes(float(str(params["bytes"]))),
                f"{params['m']}x{params['n']}x{params['k']} {params['dtype']}",
                str(first.world.ranks),
                f"{model.compute:.2f}",
                f"{model.collective:.2f}",
                first.id,
            )
        )
    if not rows:
        return None
    return Section(
        anchor="overlap",
        title="Overlap of communication and computation",
        sentences=(
            "Slow-down factors while both run. 1.00 is free overlap. On a CPU, the threads of the "
            "backend compete with the computation for the cores.",
        ),
        table=Table(columns=COLUMNS, rows=tuple(rows)),
    )
