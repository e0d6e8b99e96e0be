"""Records as sides of a comparison, the dates of changes, and ranks and pairs that stand out."""

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
from mi300bench.schema.probe import family_of as probe_family
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.stats import SMALLEST_EFFECT
from mi300bench.store.newest import began, runs_by_point

# What the records of one store can be split by.
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
    """Return the family of a record: its probe's, with the number of ranks if there are several."""
    family = probe_family(record.probe)
    return f"{family} x{record.world.ranks}" if record.world.ranks > 1 else family


def label_of(record: Measurement) -> str:
    """Return a point as text: probe, parameters, environment and ranks."""
    settings = [f"{name}={value}" for name, value in sorted(record.params.items())]
    settings += [f"{name}={value}" for name, value in sorted(record.environment.items())]
    ranks = [f"x{record.world.ranks}"] if record.world.ranks > 1 else []
    return " ".join([record.probe, *settings, *ranks])


def _key(record: Measurement, *, by_node: bool) -> str:
    """Return what identifies a point: its definition and its origin, by request its node too."""
    return f"{record.point} {record.origin}" + (f" {record.node}" if by_node else "")


def _by_run(records: Iterable[Measurement], *, by_node: bool) -> dict[str, list[list[Measurement]]]:
    """Return the records of each point, run by run, the newest run last."""
    return runs_by_point(records, lambda record: _key(record, by_node=by_node))


def side_of(records: Iterable[Measurement], *, by_node: bool = False) -> Side:
    """Return the points of a side: medians of the processes of the newest run that has each point.

    `by_node` keeps the points of different nodes apart, for sides of several nodes.
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
    """What two sides do not have in common.

    `broken` are points with a result on the first side that failed on the second; `differing` are
    device, versions and origin where they differ, with the values of both sides.
    """

    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    broken: tuple[str, ...]
    differing: Mapping[str, tuple[str, str]]


def apart(
    first: Sequence[Measurement], second: Sequence[Measurement], *, by_node: bool = False
) -> Apart:
    """Return what two sides do not have in common.

    A point is broken if it has a speed on the first side and every record of the second side's
    newest run of it failed or gave a wrong answer.
    """
    one, other = (side_of(records, by_node=by_node) for records in (first, second))
    newest = {key: runs[-1] for key, runs in _by_run(second, by_node=by_node).items()}
    broken = {
        key
        for key in one
        if key in newest and all(record.outcome in BROKEN for record in newest[key])
    }
    reasons = [
        f"{label_of(runs[0])}: {runs[0].reason}" for key, runs in newest.items() if key in broken
    ]
    here, there = _identities(first), _identities(second)
    return Apart(
        only_first=tuple(one[key].label for key in one if key not in other and key not in broken),
        only_second=tuple(other[key].label for key in other if key not in one),
        broken=tuple(reasons),
        differing={
            name: (value, there[name]) for name, value in here.items() if value != there[name]
        },
    )


def _identities(side: Sequence[Measurement]) -> dict[str, str]:
    """Return the values on a side of all that must agree on one curve, except the node."""
    names = [name for name in identity(side[0]) if name != "node"]
    return {name: _all_of({identity(record)[name] for record in side}) for name in names}


def _all_of(values: set[str]) -> str:
    return ", ".join(sorted(values)[:3]) + (", ..." if len(values) > 3 else "")


def split(records: Iterable[Measurement], by: str) -> dict[str, tuple[Measurement, ...]]:
    """Return records by the value of an attribute, sorted."""
    groups: dict[str, list[Measurement]] = {}
    for record in records:
        groups.setdefault(ATTRIBUTES[by](record), []).append(record)
    return {name: tuple(groups[name]) for name in sorted(groups)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dated:
    """A change in a side's history, with its date.

    `run` is the first run after a step, or the first run of a drift; `since` is its date; `runs` is
    the number of runs in the history.
    """

    name: str
    family: str
    ratio: Interval
    is_drift: bool
    run: str
    since: str
    runs: int

    @property
    def sentence(self) -> str:
        """Return the change as a sentence."""
        how = "drifted" if self.is_drift else "stepped"
        return (
            f"{self.name}: {self.family} {how} to {self.ratio.as_ratio} of its earlier seconds, "
            f"since {self.since}, run {self.run}"
        )


def dated_changes(sides: Mapping[str, Sequence[Measurement]]) -> list[Dated]:
    """Return the steps and drifts in the histories of sides, the largest slow-down first."""
    runs = {
        name: sorted((run for run in split(records, "run").values() if began(run)), key=began)
        for name, records in sides.items()
    }
    by_side = {name: histories([side_of(run) for run in own]) for name, own in runs.items()}
    changes = []
    for name, by_family in by_side.items():
        for family, (places, figures) in by_family.items():
            others = [
                noise_between(by_side[other][family][1])
                for other in by_side
                if other != name and family in by_side[other]
            ]
            change = find_change(figures, common=shared(others))
            if change is None:
                continue
            run = runs[name][places[change.at]]
            changes.append(
                Dated(
                    name=name,
                    family=family,
                    ratio=change.ratio,
                    is_drift=change.is_drift,
                    run=run[0].run,
                    since=began(run)[:10],
                    runs=len(places),
                )
            )
    return sorted(changes, key=lambda row: -row.ratio.mid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a machine that stands out: a rank of a group, or a pair of devices."""

    name: str
    ratio: Interval
    evidence: tuple[str, ...]
    of: int  # the number of records in which it stands out


def slow_parts(records: Iterable[Measurement]) -> list[Part]:
    """Return ranks that stand out in their group, and pairs slower than others of the same kind.

    A rank that comes late to a collective takes the shortest time in it, because the others wait
    for it. So a rank stands out both ways, slower or faster.
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
        for row in (row for row in _that_count(standings(logs)) if row.ratio.mid > 1):
            record = group[row.place]
            name = f"{record.node} {record.params.get('src')} to {record.params.get('dst')}"
            by_part.setdefault(name, []).append((row.ratio, record.id))
    rows = [
        Part(
            name=name,
            ratio=sorted((ratio for ratio, _ in seen), key=lambda ratio: ratio.mid)[len(seen) // 2],
            evidence=tuple(identity for _, identity in seen),
            of=len(seen),
        )
        for name, seen in by_part.items()
    ]
    return sorted(rows, key=lambda row: -abs(math.log(row.ratio.mid)))


def _standing_ranks(record: Measurement) -> list[Standing]:
    samples = record.rank_samples
    if len(samples) < 3 or any(len(own) < 3 or min(own) <= 0 for own in samples):
        return []
    return _that_count(standings([math.log(stats.typical(own)) for own in samples], both_ways=True))


def _that_count(rows: Sequence[Standing]) -> list[Standing]:
    """Return the standings that are odd by more than the smallest effect."""
    return [row for row in rows if row.is_odd and abs(row.ratio.mid - 1) > SMALLEST_EFFECT]


def _kind_of_pair(record: Measurement, at_once: int) -> tuple[str, ...]:
    """Return what pairs must have in common to be compared.

    That is node, run, number of transfers at once, the kinds of source, executor and destination,
    and every other parameter.
    """
    kinds = tuple(re.sub(r"\d+", "", str(record.params.get(end))) for end in ("src", "exe", "dst"))
    others = tuple(
        f"{name}={value}"
        for name, value in sorted(record.params.items())
        if name not in ("src", "exe", "dst", "test")
    )
    return (record.node, record.run, *kinds, str(at_once), *others)
