"""Comparison of sides: two of them point by point, or several, each with all others.

A side is the folder of a store or of a node, ``node:NAME`` or ``run:ID``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mi300bench.comparison.outliers import Odd, odd_ones
from mi300bench.comparison.points import Compared, compare
from mi300bench.comparison.probe_shift import ProbeShift, probe_shifts
from mi300bench.comparison.read_sides import records_of_side
from mi300bench.comparison.sides import (
    Apart,
    Dated,
    Part,
    apart,
    dated_changes,
    side_of,
    slow_parts,
    split,
)
from mi300bench.errors import CheckError, PlanError, RecordError
from mi300bench.measurement.settings import Say, silent
from mi300bench.schema.record import Measurement
from mi300bench.stats import SMALLEST_EFFECT, Verdict
from mi300bench.store.reader import read_records

Sides = Mapping[str, Sequence[Measurement]]
SHOWN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSides:
    """Two sides, point by point and probe by probe. `are_equals`: neither is the reference."""

    first: str
    second: str
    points: Sequence[Compared]
    probes: Sequence[ProbeShift]
    apart: Apart
    parts: Sequence[Part]
    changes: Sequence[Dated]
    are_equals: bool

    def require_no_slower(self) -> None:
        """Raise `CheckError` if the second side is slower or lost results.

        If the sides are equals, raise it if either of them is slower.
        """
        if self.apart.broken:
            raise CheckError(
                f"{len(self.apart.broken)} points have no result any more on {self.second}: "
                f"{shortened(self.apart.broken, SHOWN)}",
                hint=f"to repeat what failed on {self.second}, "
                "give the command that measured it with --resume",
            )
        self._require(Verdict.SLOWER, self.second)
        if self.are_equals:
            self._require(Verdict.FASTER, self.first)

    def _require(self, verdict: Verdict, slower: str) -> None:
        points = sorted(
            (row for row in self.points if row.verdict is verdict),
            key=lambda row: -abs(row.ratio.mid - 1),
        )
        if points:
            worst = points[0]
            raise CheckError(
                f"{len(points)} of {len(self.points)} points are slower on {slower}; "
                f"the worst, {worst.label}, takes {worst.ratio.as_ratio} of the time",
                hint=f"to repeat it: mi300bench sweep again {worst.second[0]}",
            )
        probes = [row for row in self.probes if row.verdict is verdict]
        if probes:
            raise CheckError(
                f"the probe {probes[0].family} is slower on {slower}: "
                f"it takes {probes[0].ratio.as_ratio} of the time",
                hint="list its points with --all; more runs of a side separate noise from change",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralSides:
    """Three sides or more, each compared with all others."""

    names: Sequence[str]
    rows: Sequence[Odd]
    parts: Sequence[Part]
    changes: Sequence[Dated]

    def require_no_slower(self) -> None:
        """Raise `CheckError` if a side is slower than the others, or became slower over time."""
        odd = [row for row in self.rows if row.is_odd]
        slowed = [change for change in self.changes if change.ratio.mid > 1]
        if odd:
            first = odd[0]
            same = (c for c in slowed if (c.name, c.family) == (first.name, first.family))
            since = next((f", since {change.since}" for change in same), "")
            raise CheckError(
                f"{first.name} is slower than the others: {first.family} takes "
                f"{first.ratio.mid:.3f} of their time{since}",
                hint=f"its worst point is {first.worst}; to see all points: "
                f"mi300bench compare --all node:{first.name} node:NAME of another node",
            )
        if slowed:
            raise CheckError(
                slowed[0].sentence,
                hint="compare the runs before and after: mi300bench compare run:ID run:ID",
            )


def compare_sides(
    sides: Sequence[str],
    *,
    by: str | None = None,
    store: Path = Path("runs"),
    smallest: float = SMALLEST_EFFECT,
    warn: Say = silent,
) -> TwoSides | SeveralSides:
    """Return the comparison of named sides, or of the records of a store split `by` an attribute.

    `smallest` is the smallest relative change that counts. Raises `PlanError` if there is nothing
    to compare.
    """
    if not 0 < smallest < 1:
        raise PlanError(
            f"--effect must be between 0 and 100 % (got {100 * smallest:g})", hint="--effect 3"
        )
    records = _split(sides, by, store, warn) if by is not None else _named(sides, store, warn)
    if len(records) == 2:
        return _two(records, smallest, are_equals=by is not None)
    if len(records) < 2:
        raise PlanError(
            f"there is only one side to compare: {', '.join(records)}",
            hint="add records of another one to the store, or choose another --by",
        )
    return _several(records, smallest)


def _split(texts: Sequence[str], by: str, store: Path, warn: Say) -> Sides:
    if texts:
        raise PlanError("--by and named sides exclude each other", hint="give only one of them")
    sides = split(read_records(store, warn=warn), by)
    if not sides:
        raise RecordError(f"the store {store} has no records", hint="measure first: mi300bench hbm")
    return sides


def _named(texts: Sequence[str], store: Path, warn: Say) -> Sides:
    if len(texts) < 2:
        raise PlanError(
            f"a comparison needs two sides or more (got {len(texts)})",
            hint="name two sides, such as runs/a runs/b, or give --by node",
        )
    if len({_place(text) for text in texts}) < len(texts):
        raise PlanError(
            f"a side is named twice: {', '.join(texts)}", hint="name another side in its place"
        )
    return {text: records_of_side(text, store, warn) for text in texts}


def _place(text: str) -> str:
    return str(Path(text).resolve()) if Path(text).is_dir() else text


def _two(sides: Sides, smallest: float, *, are_equals: bool) -> TwoSides:
    (a, first), (b, second) = sides.items()
    by_node = not are_equals and any(
        len({record.node for record in side}) > 1 for side in (first, second)
    )
    one, other = (side_of(records, by_node=by_node) for records in (first, second))
    points = compare(one, other, smallest=smallest)
    unshared = apart(first, second, by_node=by_node)
    if not points and not unshared.broken:
        raise PlanError(
            "the sides have no point in common: "
            f"{a} has {shortened(unshared.only_first, SHOWN) or 'nothing'}, "
            f"{b} has {shortened(unshared.only_second, SHOWN) or 'nothing'}",
            hint="run the same sweep on both; "
            "imported, measured and emulated records are not compared with each other",
        )
    return TwoSides(
        first=a,
        second=b,
        points=points,
        probes=probe_shifts(one, other, smallest=smallest),
        apart=unshared,
        parts=slow_parts([*first, *second]),
        changes=dated_changes(sides),
        are_equals=are_equals,
    )


def _several(sides: Sides, smallest: float) -> SeveralSides:
    rows = odd_ones({name: side_of(records) for name, records in sides.items()}, smallest=smallest)
    if not rows:
        raise PlanError(
            "no point was measured on three sides or more",
            hint="run the same sweep on all sides; to see what they have: mi300bench query",
        )
    return SeveralSides(
        names=tuple(sides),
        rows=rows,
        parts=slow_parts(_all(sides.values())),
        changes=dated_changes(sides),
    )


def _all(sides: Iterable[Sequence[Measurement]]) -> Iterable[Measurement]:
    return (record for records in sides for record in records)


def shortened(texts: Sequence[str], most: int = 4) -> str:
    """Return the first `most` texts, and the number of the others."""
    more = f"; and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more
