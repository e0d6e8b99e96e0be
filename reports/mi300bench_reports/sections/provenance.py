"""Where the numbers come from: doubts, failures, conditions, all points, and how to repeat them."""

from collections import Counter
from collections.abc import Sequence

from mi300bench import stats
from mi300bench.schema.config import TunedConfig
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.store.newest import newest_passes

from mi300bench_reports import as_text
from mi300bench_reports.elements import Section, Table

# A page shows at most this many points.
MOST_POINTS = 2000
# At most this many values of a condition are listed.
MOST_VALUES = 4
# The place of a record in an imported log is no condition of it.
PLACES = ("line", "entry")
FAILURE_COLUMNS = ("probe", "parameters", "outcome", "reason", "record")
POINT_COLUMNS = ("probe", "parameters", "ranks", "time", "+-", "samples", "records")


def doubts(records: Sequence[Measurement]) -> Section | None:
    """Return one example of each kind of doubt, and on how many records it is."""
    kinds: dict[str, tuple[str, list[str]]] = {}
    for record in records:
        for doubt in record.doubts:
            kinds.setdefault(doubt.kind, (str(doubt), []))[1].append(record.id)
    if not kinds:
        return None
    keys = tuple((sentence, len(ids), ids[0]) for sentence, ids in kinds.values())
    return Section(
        anchor="doubts",
        title="Doubts",
        sentences=(
            "Reasons not to trust a number, with one example of each kind. Each record has its own "
            "doubts.",
        ),
        table=Table(
            columns=("doubt", "records", "example"),
            rows=tuple((sentence, str(count), identity) for sentence, count, identity in keys),
            keys=keys,
        ),
    )


def failures(records: Sequence[Measurement]) -> Section | None:
    """Return the points without a speed and why; telemetry never has one."""
    rows = tuple(
        (record.probe, as_text.params(record), str(record.outcome), record.reason, record.id)
        for record in records
        if record.outcome is not Outcome.OK and record.probe != "telemetry"
    )
    if not rows:
        return None
    return Section(
        anchor="failures",
        title="Points without a result",
        table=Table(columns=FAILURE_COLUMNS, rows=rows),
    )


def conditions(records: Sequence[Measurement]) -> Section:
    """Return every condition and variable of the process, with its most frequent values."""
    values: dict[str, Counter[str]] = {}
    for record in records:
        named = {**record.conditions, **record.variables, "threads and ranks": _world(record)}
        for name, value in named.items():
            if value not in (None, "") and name not in PLACES:
                values.setdefault(name, Counter())[str(value)] += 1
    return Section(
        anchor="conditions",
        title="Conditions",
        table=Table(
            columns=("condition", "values"),
            rows=tuple((name, _most_frequent(values[name])) for name in sorted(values)),
        ),
    )


def _world(record: Measurement) -> str:
    world = record.world
    return f"{world.ranks} rank(s) x {world.threads or 'default'} threads on {world.device}"


def _most_frequent(counts: Counter[str]) -> str:
    values = [value for value, _ in counts.most_common()]
    rest = len(values) - MOST_VALUES
    return "; ".join(values[:MOST_VALUES]) + (f"; and {rest} more" if rest > 0 else "")


def reproduce(records: Sequence[Measurement], tuned: TunedConfig | None) -> Section:
    """Return the commands that measure these numbers again."""
    example = next((record for record in records if record.outcome is Outcome.OK), records[0])
    runs = sorted({record.run for record in records})
    commands = [
        *([tuned.made_by] if tuned is not None and tuned.made_by else []),
        f"mi300bench sweep again {example.id}",
        'mi300bench query "SELECT id, probe, params, seconds, bandwidth, flop_rate FROM records"',
    ]
    return Section(
        anchor="reproduce",
        title="How to reproduce",
        sentences=(
            "To measure a number again, take the record id from its row: `mi300bench sweep again "
            "ID` runs that point with the same parameters, ranks and environment.",
            f"This report was built from {len(records)} records of {len(runs)} run(s), "
            f"{runs[0]} to {runs[-1]}.",
        ),
        code="\n".join(commands),
    )


def all_points(records: Sequence[Measurement], *, most: int = MOST_POINTS) -> Section:
    """Return one row per point, of the newest `most`: time, interval, samples, record ids."""
    points = newest_passes(records)
    shown = points
    if len(points) > most:
        shown = sorted(points, key=lambda passes: passes[0].run)[-most:]
    rows: list[tuple[str, ...]] = []
    keys: list[tuple[float | str, ...]] = []
    for passes in shown:
        first, interval = passes[0], stats.interval_of(passes)
        spread = (interval.high - interval.low) / 2 / interval.mid
        samples = sum(len(record.samples) for record in passes)
        ids = " ".join(record.id for record in passes)
        params, ranks = as_text.params(first), first.world.ranks
        rows.append(
            (
                first.probe,
                params,
                str(ranks),
                as_text.seconds(interval.mid),
                interval.as_spread,
                str(samples),
                ids,
            )
        )
        keys.append((first.probe, params, ranks, interval.mid, spread, samples, ids))
    sentences = [
        "Median time of one call, from the newest run of each point. The interval (+-) is over "
        "processes."
    ]
    if len(shown) < len(points):
        sentences.append(
            f"The newest {len(shown)} of {len(points)} points. For the rest: mi300bench query."
        )
    return Section(
        anchor="points",
        title="All points",
        sentences=tuple(sentences),
        table=Table(columns=POINT_COLUMNS, rows=tuple(rows), keys=tuple(keys)),
    )
