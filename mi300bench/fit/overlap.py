"""How much a collective and computation slow each other down while both run.

The overlap probe measures four times: products alone (a), the all-reduce alone (c), products
beside the all-reduce (b), and both until the last is done (t >= b). Computation slows down by
b / a. The all-reduce ran slowed down for b seconds and undisturbed for t - b, so
c = b / s + (t - b), which gives its own slow-down factor s.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mi300bench import stats
from mi300bench.errors import RecordError
from mi300bench.schema.record import Measurement

# Where nearly all of the all-reduce ran undisturbed, its factor is unknown and taken as this.
MOST_SLOWDOWN = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapModel:
    """Slow-down factors while both run, at least 1.

    `by_size` has a row for each message: its bytes, the computation's factor, the collective's.
    """

    compute: float
    collective: float
    by_size: tuple[tuple[float, float, float], ...]
    evidence: tuple[str, ...]


def _factors(record: Measurement) -> tuple[float, float]:
    alone, collective, beside, both = (
        stats.typical([float(v) for v in record.series[name]])
        for name in ("compute_alone_s", "collective_alone_s", "compute_beside_s", "both_s")
    )
    undisturbed = max(both - beside, 0.0)
    slowed = collective - undisturbed
    collective_factor = max(1.0, beside / slowed) if slowed > 0 else MOST_SLOWDOWN
    return max(1.0, beside / alone), min(MOST_SLOWDOWN, collective_factor)


def fit_overlap(groups: Sequence[Sequence[Measurement]]) -> OverlapModel:
    """Return the factors of each message size and their medians."""
    if not groups:
        raise RecordError("the store has no overlap point", hint="measure it: mi300bench overlap")
    rows = []
    for passes in groups:
        factors = [_factors(record) for record in passes]
        size = float(str(passes[0].params["bytes"]))
        rows.append(
            (size, stats.typical([f[0] for f in factors]), stats.typical([f[1] for f in factors]))
        )
    rows.sort()
    return OverlapModel(
        compute=stats.typical([row[1] for row in rows]),
        collective=stats.typical([row[2] for row in rows]),
        by_size=tuple(rows),
        evidence=tuple(record.id for passes in groups for record in passes),
    )
