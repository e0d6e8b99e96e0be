"""Records as sides of a comparison: split by what tells them apart, the newest of each point, histories, ranks and pairs."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mi300bench import stats
from mi300bench.comparison.history import find_change, histories, noise_between
from mi300bench.comparison.medians import Medians, Side
from mi300bench.comparison.noise import shared
from mi300bench.comparison.outliers import Standing, standings
from mi300bench.schema.comparable import identity
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.stats import SMALLEST_EFFECT
from mi300bench.store.newest import began, runs_by_point

# What several sides of one store may differ in.
ATTRIBUTES: Mapping[str, Callable[[Measurement], str]] = {
    "node": lambda record: record.node,
    "run": lambda record: record.run,
    "device": lambda record: record.device,
    "framework": lambda record: " ".join(
        str(record.conditions.get(name, "")) for name in ("framework", "framework_version")
    ),
    "runtime": lambda record: str(record.conditions.get("runtime", "")),
}
BROKEN = (Outcome.FAILED, Outcome.WRONG_ANSWER)


def family_of(record: Measurement) -> str:
    """Return what shares a record's noise: its probe, in a world of the same size."""
    probe = (
        record.probe.partition(".")[0]
        if not record.probe.startswith("jax.")
        else ".".join(record.probe.split(".")[:2])
    )
    return f"{probe} x{record.world.ranks}" if record.world.ranks > 1 else probe


def label_of(record: Measurement) -> str:
    """Return a point in words."""
    said = [f"{name}={value}" for name, value in sorted(record.params.items())]
    said += [f"{name}={value}" for name, value in sorted(record.environment.items())]
    ranks = [f"x{record.world.ranks}"] if record.world.ranks > 1 else []
    return " ".join([record.probe, *said, *ranks])


def _key(record: Measurement, *, by_node: bool) -> str:
    """Return what two records must share to be of one point: its definition, and where its numbers come from."""
    return f"{record.point} {record.origin}" + (f" {record.node}" if by_node else "")


def _by_run(
    records: Iterable[Measurement], *, by_node: bool
) -> dict[str, list[list[Measurement]]]:
    """Return the records of each point, run by run, the newest last."""
    return runs_by_point(records, lambda record: _key(record, by_node=by_node))


def side_of(records: Iterable[Measurement], *, by_node: bool = False) -> Side:
    """Return the medians of each point's processes, of the newest run that has the point: how things stand now.

    `by_node` tells the points of one node from those of another, for sides of several nodes.
    """
    good = (
        record for record in records if record.outcome is Outcome.OK and min(record.samples) > 0
    )
    side = {}
    for key, runs in _by_run(good, by_node=by_node).items():
        newest = runs[-1]
        prefix = f"{newest[0].node}: " if by_node else ""
        side[key] = Medians(
            label=prefix + label_of(newest[0]),
            family=prefix + family_of(newest[0]),
            seconds=tuple(stats.seconds_per_call(record) for record in newest),
            evidence=tuple(record.id for record in newest),
            run=newest[0].run,
            earlier={
                run[0].run: stats.typical([stats.seconds_per_call(record) for record in run])
                for run in runs[:-1]
            },
        )
    return side


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """What two sides do not share: points of one alone, points that broke on the second, and in what else they differ."""

    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    broken: tuple[str, ...]
    differing: Mapping[str, tuple[str, str]]


def apart(
    first: Sequence[Measurement], second: Sequence[Measurement], *, by_node: bool = False
) -> Apart:
    """Return what two sides do not share. A point broke that has a speed on the first and none in the second's newest run."""
    one, other = (side_of(records, by_node=by_node) for records in (first, second))
    newest = {key: runs[-1] for key, runs in _by_run(second, by_node=by_node).items()}
    broken = {
        key
        for key in one
        if key in newest and all(record.outcome in BROKEN for record in newest[key])
    }
    words = {
        key: f"{label_of(runs[0])}: {next(r.reason for r in runs)}"
        for key, runs in newest.items()
        if key in broken
    }
    told = [_identities(side) for side in (first, second)]
    return Apart(
        only_first=tuple(one[key].label for key in one if key not in other and key not in broken),
        only_second=tuple(other[key].label for key in other if key not in one),
        broken=tuple(words.values()),
        differing={
            name: (said, told[1][name]) for name, said in told[0].items() if said != told[1][name]
        },
    )


def _identities(side: Sequence[Measurement]) -> dict[str, str]:
    """Return what the records of a side say of everything that must agree on one curve, the node left out."""
    names = [name for name in identity(side[0]) if name != "node"]
    return {name: _all_of({identity(record)[name] for record in side}) for name in names}


def _all_of(values: set[str]) -> str:
    return ", ".join(sorted(values)[:3]) + (", ..." if len(values) > 3 else "")


def split(records: Iterable[Measurement], by: str) -> dict[str, tuple[Measurement, ...]]:
    """Return records by an attribute, in the order of its values."""
    groups: dict[str, list[Measurement]] = {}
    for record in records:
        groups.setdefault(ATTRIBUTES[by](record), []).append(record)
    return {name: tuple(groups[name]) for name in sorted(groups)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dated:
    """A change in a side's history: its size, the first run after it (of a drift the first of all), and when that was."""

    name: str
    family: str
    ratio: Interval
    is_drift: bool
    run: str
    since: str
    runs: int

    @property
    def sentence(self) -> str:
        """Return the change as words."""
        how = "drifting" if self.is_drift else "a step"
        return f"{self.name}: {self.family}, {how} to {self.ratio.as_ratio} of its seconds since {self.since}, run {self.run}"


def dated_changes(sides: Mapping[str, Sequence[Measurement]]) -> list[Dated]:
    """Return the sides and families whose history has a step or a drift, with the run and the date from which on it holds."""
    runs = {
        name: sorted((run for run in split(records, "run").values() if began(run)), key=began)
        for name, records in sides.items()
    }
    told = {name: histories([side_of(run) for run in own]) for name, own in runs.items()}
    found = []
    for name, by_family in told.items():
        for family, (places, figures) in by_family.items():
            others = [
                noise_between(told[other][family][1])
                for other in told
                if other != name and family in told[other]
            ]
            change = find_change(figures, common=shared(others))
            if change is None:
                continue
            run = runs[name][places[change.at]]
            found.append(
                Dated(
                    name=name, family=family, ratio=change.ratio, is_drift=change.is_drift, run=run[0].run, since=began(run)[:10],
                    runs=len(places),
                )
            )  # fmt: skip
    return sorted(found, key=lambda row: -row.ratio.mid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a machine that stands out: a rank of a group, or a pair of devices."""

    name: str
    ratio: Interval
    evidence: tuple[str, ...]
    of: int  # records that say so


def slow_parts(records: Iterable[Measurement]) -> list[Part]:
    """Return the ranks that stand out in their group, and pairs slower than the other pairs of the same kind and size.

    Who comes late to a collective takes the shortest time in it, because the others wait: both ways count for a rank.
    """
    by_part: dict[str, list[tuple[Interval, str]]] = {}
    pairs: dict[tuple[str, ...], list[Measurement]] = {}
    records = list(records)
    at_once = Counter(
        (record.run, record.params.get("test")) for record in records if record.probe == "transfer"
    )
    for record in records:
        if record.outcome is not Outcome.OK:
            continue
        for row in _standing_ranks(record):
            how = "takes longer" if row.ratio.mid > 1 else "comes late, the others wait"
            by_part.setdefault(
                f"{record.node} rank {row.place} of {record.world.ranks}: {how}", []
            ).append((row.ratio, record.id))
        if record.probe == "transfer" and record.params.get("src") != record.params.get("dst"):
            kind = _kind_of_pair(record, at_once[record.run, record.params.get("test")])
            pairs.setdefault(kind, []).append(record)
    for group in pairs.values():
        logs = [math.log(stats.seconds_per_call(record)) for record in group]
        for row in (row for row in _counting(standings(logs)) if row.ratio.mid > 1):
            record = group[row.place]
            name = f"{record.node} {record.params.get('src')} to {record.params.get('dst')}"
            by_part.setdefault(name, []).append((row.ratio, record.id))
    rows = [
        Part(name=name, ratio=sorted((r for r, _ in seen), key=lambda r: r.mid)[len(seen) // 2],
             evidence=tuple(identity for _, identity in seen), of=len(seen))
        for name, seen in by_part.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -abs(math.log(row.ratio.mid)))


def _standing_ranks(record: Measurement) -> list[Standing]:
    samples = record.rank_samples
    if len(samples) < 3 or any(len(own) < 3 or min(own) <= 0 for own in samples):
        return []
    return _counting(standings([math.log(stats.typical(own)) for own in samples], both_ways=True))


def _counting(rows: Sequence[Standing]) -> list[Standing]:
    return [row for row in rows if row.is_odd and abs(row.ratio.mid - 1) > SMALLEST_EFFECT]


def _kind_of_pair(record: Measurement, at_once: int) -> tuple[str, ...]:
    """Return what pairs must share to be alike: node, run, the kinds of both ends and of who copies, and every other parameter."""
    kinds = tuple(re.sub(r"\d+", "", str(record.params.get(end))) for end in ("src", "exe", "dst"))
    others = tuple(
        f"{name}={value}"
        for name, value in sorted(record.params.items())
        if name not in ("src", "exe", "dst", "test")
    )
    return (record.node, record.run, *kinds, str(at_once), *others)
