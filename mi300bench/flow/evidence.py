"""From a store's records to the fits that a choice rests on. What is missing names the command that measures it."""

from collections.abc import Iterable, Sequence

from mi300bench.errors import RecordError
from mi300bench.fit.link import fit_link
from mi300bench.fit.overlap import fit_overlap
from mi300bench.fit.step import LANES, StepModel, fit_timeline
from mi300bench.schema.record import Measurement, Scalar, World
from mi300bench.store.select import by_point, require_comparable, select

# How many all-reduces at once the concurrency of a link is measured with.
PAIR = 2


def latest(records: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return, for each point, the records of the newest run that has it with a speed."""
    newest: dict[str, str] = {}
    chosen = [record for record in records if record.outcome == "ok"]
    for record in chosen:
        newest[record.point] = max(newest.get(record.point, ""), record.run)
    return tuple(record for record in chosen if record.run == newest[record.point])


def groups(records: Iterable[Measurement], probe: str, world: World, **params: Scalar) -> list[Sequence[Measurement]]:
    """Return the passes of each point of a probe in a world, measured without settings of its own."""
    chosen = (r for r in select(records, probe, **params) if r.world == world and not r.environment)
    return list(by_point(chosen).values())


def step_model(records: Sequence[Measurement], trainer: str, world: World, **params: Scalar) -> StepModel:
    """Return the model of a trainer's step from comparable records; `RecordError` says what is missing.

    Gradients travel as float32, so the all-reduce curve is that of float32.
    """
    place = f"among {world.ranks} ranks of {world.threads or 'default'} threads on {world.device}"
    timelines = groups(records, f"{trainer}.backward", world, **params)
    links = groups(records, "collective.all_reduce", world, dtype="float32", inflight=None)
    pairs = groups(records, "collective.all_reduce", world, dtype="float32", inflight=PAIR)
    # As many all-reduces at once as the backend runs, since that is what disturbs a backward pass.
    lanes = LANES.get(str(links[0][0].conditions.get("backend", "")), 1) if links else 1
    overlaps = groups(records, "overlap", world, inflight=lanes if lanes > 1 else None)
    said = " ".join(f"{name}={value}" for name, value in params.items())
    for found, what, command in (
        (
            timelines,
            f"gradient timeline of {trainer} {said}",
            f"mi300bench autotune {trainer}, or sweep run {trainer}-timeline",
        ),
        (
            links,
            "float32 all-reduce",
            f"mi300bench collectives --ops all_reduce --sizes 8:256M:x4 --ranks {world.ranks}",
        ),
        (overlaps, "overlap of a collective with products", f"mi300bench overlap --inflight {lanes} --ranks {world.ranks}"),
    ):
        if not found:
            raise RecordError(f"the store has no {what} {place}", hint=f"measure it: {command}")
    used = [record for group in (timelines, links, pairs, overlaps) for passes in group for record in passes]
    require_comparable(used, what="the step model")
    return StepModel(timeline=fit_timeline(timelines[0]), link=fit_link(links, pairs=pairs), overlap=fit_overlap(overlaps))


def doubts(records: Iterable[Measurement], identities: Iterable[str]) -> tuple[str, ...]:
    """Return the doubts of the records with these ids: one sentence a kind, and how many records share the kind."""
    wanted = set(identities)
    kinds: dict[str, list[str]] = {}
    for record in records:
        if record.id in wanted:
            for doubt in record.doubts:
                kinds.setdefault(doubt.kind, []).append(str(doubt))
    return tuple(
        said[0] + (f" (This or alike in {len(said)} of {len(wanted)} records.)" if len(said) > 1 else "") for said in kinds.values()
    )
