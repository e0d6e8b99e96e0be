"""From records and a tuned config to the page as plain data. Nothing is drawn and nothing is formatted as HTML here."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mi300bench import stats
from mi300bench.comparison.sides import began
from mi300bench.schema.config import TunedConfig
from mi300bench.schema.model import Gemm
from mi300bench.schema.record import Measurement, Origin, Outcome
from mi300bench.units import Unit, format_quantity

# A page holds so many points; a store may hold more.
MOST_POINTS = 2000
# Where in a log a record stands is no condition of it.
PLACES = ("line", "entry")
# A heading names so many machines.
MOST_NAMED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns and rows of text; `keys` sort a row's cells where the text would sort wrongly."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    keys: tuple[tuple[float | str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What is folded away under a section: a summary, sentences and a table."""

    summary: str
    sentences: tuple[str, ...] = ()
    table: Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with sentences, a chart (SVG) and a table, each of which may be missing, details, and its evidence."""

    anchor: str
    title: str
    sentences: tuple[str, ...] = ()
    chart: str = ""
    table: Table | None = None
    code: str = ""
    details: tuple[Detail, ...] = ()
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What stands above the fold."""

    headline: str
    set_this: str
    gain: str
    certainty: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The whole report."""

    machine: str
    warning: str
    imported: tuple[str, ...]  # what came from other tools' logs
    verdict: Verdict | None
    sections: tuple[Section, ...]


def machine_of(records: Sequence[Measurement]) -> str:
    """Return the first line: which machine this is about."""
    nodes = Counter((record.node, record.device) for record in records)
    named = [f"{node}: {device or 'device not told'}" for (node, device), _ in nodes.most_common()]
    return "; ".join(named[:MOST_NAMED]) + (
        f"; and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    )


def imported_of(records: Sequence[Measurement]) -> tuple[str, ...]:
    """Return which logs of other tools the page draws on, with the records of each: measured, but not by us."""
    files = Counter(
        f"{record.source}, on {record.node}"
        for record in records
        if record.origin is Origin.IMPORTED
    )
    return tuple(f"{count} from {name}" for name, count in sorted(files.items()))


def warning_of(records: Sequence[Measurement]) -> str:
    """Return what must be read with the first line: data that no real machine gave."""
    made = {
        (str(r.origin), r.source)
        for r in records
        if r.origin not in (Origin.MEASURED, Origin.IMPORTED)
    }
    return "; ".join(
        f"{origin} data{f': {source}' if source else ''}" for origin, source in sorted(made)
    )


def passes_of(records: Iterable[Measurement]) -> list[tuple[Measurement, ...]]:
    """Return the passes with a speed of each point, the newest run of it; points of two machines are two points."""
    groups: dict[tuple[str, ...], dict[str, list[Measurement]]] = {}
    for record in records:
        if record.outcome is Outcome.OK:
            groups.setdefault((*machine_key(record), record.point), {}).setdefault(
                record.run, []
            ).append(record)
    return [
        tuple(max(runs.items(), key=lambda run: (began(run[1]), run[0]))[1])
        for runs in groups.values()
    ]


def machine_key(record: Measurement) -> tuple[str, ...]:
    """Return what tells machines apart: node, device, origin and source."""
    return record.node, record.device, str(record.origin), record.source


def by_machine(records: Iterable[Measurement]) -> dict[str, tuple[Measurement, ...]]:
    """Return the records of each machine, by a name to put in headings: empty where there is one machine only."""
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for record in records:
        key = machine_key(record)
        # What several tools wrote of one machine stands on its page together; every row still names its own.
        groups.setdefault(
            (*key[:3], "" if record.origin is Origin.IMPORTED else key[3]), []
        ).append(record)
    if len(groups) == 1:
        return {"": tuple(*groups.values())}
    return {
        " ".join(part for part in key if part and part != "measured"): tuple(found)
        for key, found in groups.items()
    }


def doubts(records: Sequence[Measurement]) -> Section | None:
    """Return every doubt, one sentence a kind with how often it was raised."""
    kinds: dict[str, tuple[str, list[str]]] = {}
    for record in records:
        for doubt in record.doubts:
            kinds.setdefault(doubt.kind, (str(doubt), []))[1].append(record.id)
    if not kinds:
        return None
    rows = tuple((said, str(len(ids)), ids[0]) for said, ids in kinds.values())
    return Section(
        anchor="doubts",
        title="Doubts",
        sentences=(
            "Why not to trust a number. One example of each kind; every record carries its own.",
        ),
        table=Table(
            columns=("doubt", "records", "such as"),
            rows=rows,
            keys=tuple((a, int(b), c) for a, b, c in rows),
        ),
    )


def failures(records: Sequence[Measurement]) -> Section | None:
    """Return the points without a speed and why; series of readings are none."""
    bad = [
        record
        for record in records
        if record.outcome is not Outcome.OK and record.probe != "telemetry"
    ]
    if not bad:
        return None
    rows = tuple((r.probe, params_text(r), str(r.outcome), r.reason, r.id) for r in bad)
    return Section(
        anchor="failures",
        title="Points without a result",
        table=Table(columns=("probe", "parameters", "outcome", "reason", "record"), rows=rows),
    )


def params_text(record: Measurement) -> str:
    """Return a record's parameters as words."""
    return " ".join(f"{name}={value}" for name, value in record.params.items())


def conditions(records: Sequence[Measurement]) -> Section:
    """Return the conditions, those that vary with all their values."""
    values: dict[str, Counter[str]] = {}
    for record in records:
        for name, value in {**record.conditions, "threads and ranks": _world(record)}.items():
            if value not in (None, "") and name not in PLACES:
                values.setdefault(name, Counter())[str(value)] += 1
    rows = []
    for name in sorted(values):
        seen = [value for value, _ in values[name].most_common()]
        rows.append(
            (name, "; ".join(seen[:4]) + (f"; and {len(seen) - 4} more" if len(seen) > 4 else ""))
        )
    return Section(
        anchor="conditions",
        title="Conditions",
        table=Table(columns=("condition", "value"), rows=tuple(rows)),
    )


def _world(record: Measurement) -> str:
    return f"{record.world.ranks} rank(s) x {record.world.threads or 'default'} threads on {record.world.device}"


def all_points(records: Sequence[Measurement]) -> Section:
    """Return one row a point: seconds, interval, samples, record ids; of very many the newest."""
    rows: list[tuple[str, ...]] = []
    keys: list[tuple[float | str, ...]] = []
    every = passes_of(records)
    shown = (
        every
        if len(every) <= MOST_POINTS
        else sorted(every, key=lambda passes: passes[0].run)[-MOST_POINTS:]
    )
    for passes in shown:
        interval = stats.interval_of(passes)
        count = sum(len(record.samples) for record in passes)
        half = (interval.high - interval.low) / 2 / interval.mid
        ids = " ".join(record.id for record in passes)
        name, said = passes[0].probe, params_text(passes[0])
        rows.append(
            (
                name,
                said,
                str(passes[0].world.ranks),
                format_quantity(interval.mid, Unit.SECOND),
                interval.as_spread,
                str(count),
                ids,
            )
        )
        keys.append((name, said, passes[0].world.ranks, interval.mid, half, count, ids))
    return Section(
        anchor="points",
        title="All points",
        sentences=(
            "Median seconds a call of the newest run of each point; the interval is over processes.",
            *(
                [f"The newest {len(shown)} of {len(every)} points; the rest: mi300bench query."]
                if len(shown) < len(every)
                else []
            ),
        ),
        table=Table(
            columns=("probe", "parameters", "ranks", "time", "+-", "samples", "records"),
            rows=tuple(rows),
            keys=tuple(keys),
        ),
    )


def reproduce(records: Sequence[Measurement], tuned: TunedConfig | None) -> Section:
    """Return the commands that make these numbers again."""
    example = next((record for record in records if record.outcome is Outcome.OK), records[0])
    lines = [tuned.made_by] if tuned is not None and tuned.made_by else []
    lines.append(f"mi300bench sweep again {example.id}")
    lines.append(
        'mi300bench query "SELECT id, probe, params, seconds, bandwidth, flop_rate FROM records"'
    )
    runs = sorted({record.run for record in records})
    return Section(
        anchor="reproduce",
        title="How to reproduce",
        sentences=(
            "Any number: take a record id beside it; `sweep again ID` measures that point anew, with the same parameters, "
            "ranks and environment.",
            f"This report is a function of {len(records)} records from {len(runs)} run(s), {runs[0]} to {runs[-1]}.",
        ),
        code="\n".join(lines),
    )


def build(
    records: Sequence[Measurement], tuned: TunedConfig | None, gemms: Sequence[Gemm] = ()
) -> Page:
    """Return the page. The records of the tuned config's evidence are drawn as the choice saw them; `gemms` are its model's."""
    from mi300bench_reports import beside, claims, machine, planned, tuning

    ordered = tuple(sorted(records, key=lambda record: (record.run, record.started_at, record.id)))
    sections = [
        *tuning.sections(ordered, tuned),
        beside.nodes(ordered),
        beside.changes(ordered),
        planned.plans(ordered),
        *machine.sections(
            [record for record in ordered if not record.probe.endswith(".plan")], gemms
        ),
        tuning.scaling(ordered),
        tuning.training_runs(ordered),
        claims.figures(ordered),
        doubts(ordered),
        failures(ordered),
        conditions(ordered),
        reproduce(ordered, tuned),
        claims.published(),
        all_points(ordered),
    ]
    return Page(
        machine=machine_of(ordered),
        warning=warning_of(ordered),
        imported=imported_of(ordered),
        verdict=tuning.verdict(tuned) if tuned is not None else None,
        sections=tuple(section for section in sections if section is not None),
    )
