"""Records as sides of a comparison: split by what tells them apart, the newest of each point, histories, ranks and pairs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mi300bench import stats
from mi300bench.fit.comparison import Medians, Side, Step, find_step, history, straggler
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement, Outcome

# What several sides of one store may differ in.
ATTRIBUTES: Mapping[str, Callable[[Measurement], str]] = {
    "node": lambda record: record.node,
    "run": lambda record: record.run,
    "device": lambda record: record.device,
    "framework": lambda record: " ".join(str(record.conditions.get(name, "")) for name in ("framework", "framework_version")),
    "runtime": lambda record: str(record.conditions.get("runtime", "")),
}


def family_of(record: Measurement) -> str:
    """Return what shares a record's noise: its probe, in a world of the same size."""
    probe = record.probe.partition(".")[0] if not record.probe.startswith("jax.") else ".".join(record.probe.split(".")[:2])
    return f"{probe} x{record.world.ranks}" if record.world.ranks > 1 else probe


def label_of(record: Measurement) -> str:
    """Return a point in words."""
    said = " ".join(f"{name}={value}" for name, value in record.params.items())
    return f"{record.probe} {said}" + (f" x{record.world.ranks}" if record.world.ranks > 1 else "")


def _began(records: Iterable[Measurement]) -> str:
    return min(record.started_at for record in records)


def side_of(records: Iterable[Measurement]) -> Side:
    """Return the medians of each point's processes, of the newest run that has the point: how things stand now."""
    runs: dict[str, dict[str, list[Measurement]]] = {}
    for record in records:
        if record.outcome is Outcome.OK and min(record.samples) > 0:
            runs.setdefault(record.point, {}).setdefault(record.run, []).append(record)
    groups = {point: max(found.values(), key=_began) for point, found in runs.items()}
    return {
        label_of(found[0]): Medians(
            family=family_of(found[0]),
            seconds=tuple(stats.seconds_per_call(record) for record in found),
            evidence=tuple(record.id for record in found),
        )
        for found in groups.values()
    }


def split(records: Iterable[Measurement], by: str) -> dict[str, tuple[Measurement, ...]]:
    """Return records by an attribute, in the order of its values."""
    groups: dict[str, list[Measurement]] = {}
    for record in records:
        groups.setdefault(ATTRIBUTES[by](record), []).append(record)
    return {name: tuple(groups[name]) for name in sorted(groups)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dated:
    """A step in a side's history: its size, the first run after it, and when that was."""

    name: str
    ratio: Interval
    run: str
    since: str
    runs: int


def dated_steps(sides: Mapping[str, Sequence[Measurement]]) -> list[Dated]:
    """Return the sides whose history has a step, with the run and the date from which on it holds."""
    found = []
    for name, records in sides.items():
        runs = dict(sorted(split(records, "run").items(), key=lambda row: _began(row[1])))
        step: Step | None = find_step(history([side_of(run) for run in runs.values()]))
        if step is not None:
            run = list(runs)[step.at]
            since = _began(runs[run])
            found.append(Dated(name=name, ratio=step.ratio, run=run, since=since[:10], runs=len(runs)))
    return sorted(found, key=lambda row: -row.ratio.mid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a machine that stands out: a rank of a group, or a pair of devices."""

    name: str
    ratio: Interval
    evidence: tuple[str, ...]
    of: int  # records that say so


def slow_parts(records: Iterable[Measurement]) -> list[Part]:
    """Return ranks that are slower than the others of their group, and pairs slower than the other pairs of the same size."""
    by_part: dict[str, list[tuple[Interval, str]]] = {}
    pairs: dict[tuple[str, ...], list[Measurement]] = {}
    for record in records:
        if record.outcome is not Outcome.OK:
            continue
        if record.rank_samples and (slow := straggler(record.rank_samples)) is not None:
            by_part.setdefault(f"{record.node} rank {slow[0]} of {record.world.ranks}", []).append((slow[1], record.id))
        if record.probe == "transfer" and record.params.get("src") != record.params.get("dst"):
            key = (record.node, str(record.params.get("bytes")), str(record.params.get("compute_units")))
            pairs.setdefault(key, []).append(record)
    for (node, *_), group in pairs.items():
        slow = straggler([record.samples * 3 for record in group])
        if slow is not None:
            record = group[slow[0]]
            name = f"{node} {record.params.get('src')} to {record.params.get('dst')}"
            by_part.setdefault(name, []).append((slow[1], record.id))
    rows = [
        Part(name=name, ratio=sorted((r for r, _ in seen), key=lambda r: r.mid)[len(seen) // 2],
             evidence=tuple(identity for _, identity in seen), of=len(seen))
        for name, seen in by_part.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row.ratio.mid)
