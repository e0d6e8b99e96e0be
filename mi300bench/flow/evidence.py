"""From a store's records to the fits that a choice rests on. What is missing names the command that measures it."""

from collections.abc import Iterable, Sequence

from mi300bench.errors import RecordError
from mi300bench.fit.link import LinkModel, fit_link
from mi300bench.fit.overlap import OverlapModel, fit_overlap
from mi300bench.fit.step import StepModel, fit_timeline
from mi300bench.schema.record import Measurement, Scalar
from mi300bench.store.select import by_point, require_comparable, select


def latest(records: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return, for each point, the records of the newest run that has it with a speed."""
    newest: dict[str, str] = {}
    chosen = [record for record in records if record.outcome == "ok"]
    for record in chosen:
        newest[record.point] = max(newest.get(record.point, ""), record.run)
    return tuple(record for record in chosen if record.run == newest[record.point])


def groups(records: Iterable[Measurement], probe: str, ranks: int, **params: Scalar) -> list[Sequence[Measurement]]:
    """Return the passes of each point of a probe."""
    return list(by_point(select(records, probe, ranks=ranks, **params)).values())


def link(records: Sequence[Measurement], ranks: int) -> LinkModel:
    """Return the fit of the all-reduce among `ranks`."""
    found = groups(records, "collective.all_reduce", ranks)
    if not found:
        raise RecordError(
            f"the store has no all-reduce among {ranks} ranks",
            hint=f"mi300bench collectives --ops all_reduce --sizes 8:256M:x4 --ranks {ranks}",
        )
    return fit_link(found)


def overlap(records: Sequence[Measurement], ranks: int) -> OverlapModel:
    """Return the fit of the overlap among `ranks`."""
    found = groups(records, "overlap", ranks)
    if not found:
        raise RecordError(
            f"the store has no overlap of a collective with products among {ranks} ranks",
            hint=f"mi300bench overlap --ranks {ranks}",
        )
    return fit_overlap(found)


def step_model(records: Sequence[Measurement], trainer: str, ranks: int, **params: Scalar) -> StepModel:
    """Return the model of a trainer's step from comparable records; `RecordError` says what is missing."""
    timelines = groups(records, f"{trainer}.backward", ranks, **params)
    if not timelines:
        said = " ".join(f"{name}={value}" for name, value in params.items())
        raise RecordError(
            f"the store has no gradient timeline of {trainer} {said} among {ranks} ranks",
            hint=f"mi300bench autotune {trainer} measures it, and so does: mi300bench sweep run {trainer}-timeline",
        )
    used = [
        *[record for passes in timelines for record in passes],
        *select(records, "collective.all_reduce", ranks=ranks),
        *select(records, "overlap", ranks=ranks),
    ]
    require_comparable(used, what="the step model")
    return StepModel(timeline=fit_timeline(timelines[0]), link=link(records, ranks), overlap=overlap(records, ranks))


def doubts(records: Iterable[Measurement], identities: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct doubts of the records with these ids, as sentences."""
    wanted = set(identities)
    found = [str(doubt) for record in records if record.id in wanted for doubt in record.doubts]
    return tuple(dict.fromkeys(found))
