"""A session measures a plan, pass by pass in fresh processes: one record per point and pass.

A crash, a hang or a kill costs one point: its record has the outcome failed and the reason, and the
worker is replaced. Points that do not fit in the budget are counted and reported.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

from mi300bench.runner.launch import OpenWorker, PointFailed, Worker, WorkerLost
from mi300bench.schema.doubt import Doubt, FewPasses
from mi300bench.schema.plan import Plan, Point
from mi300bench.schema.record import Measurement, Origin, Outcome, short_hash

Sink = Callable[[Measurement], None]
# A point that started within the budget may end this long after it.
GRACE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What all records of a session have in common."""

    run: str
    node: str
    origin: Origin = Origin.MEASURED
    source: str = ""
    doubts: tuple[Doubt, ...] = ()
    conditions: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Tally:
    """The number of records by outcome, and of points left out for lack of budget."""

    ok: int = 0
    failed: int = 0
    wrong: int = 0
    skipped: int = 0
    left_out: int = 0
    reasons: list[str] = field(default_factory=list)

    def count(self, record: Measurement) -> None:
        """Count one record."""
        match record.outcome:
            case Outcome.OK:
                self.ok += 1
            case Outcome.FAILED:
                self.failed += 1
            case Outcome.WRONG_ANSWER:
                self.wrong += 1
            case Outcome.SKIPPED:
                self.skipped += 1
        if record.outcome in (Outcome.FAILED, Outcome.WRONG_ANSWER):
            self.reasons.append(f"{record.probe} {dict(record.params)}: {record.reason}")


def failed(point: Point, reason: str) -> Measurement:
    """Return the record of a point that could not be measured."""
    return Measurement(
        probe=point.probe,
        method=point.method,
        params=dict(point.params),
        environment=dict(point.environment),
        world=point.world,
        point=point.key,
        outcome=Outcome.FAILED,
        reason=reason,
    )


def grouped(points: Iterable[Point]) -> list[list[Point]]:
    """Return points grouped by worker: those of one environment and one world share a worker."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(_worker_key(point), []).append(point)
    return list(groups.values())


def _worker_key(point: Point) -> str:
    return short_hash([dict(point.environment), asdict(point.world)])


class Session:
    """Measures points and passes each record to the sink at once."""

    def __init__(
        self,
        *,
        open_worker: OpenWorker,
        sink: Sink,
        provenance: Provenance,
        deadline: float | None = None,
        now: Callable[[], float] = time.monotonic,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._open_worker = open_worker
        self._sink = sink
        self._provenance = provenance
        self._deadline = deadline
        self._now = now
        self._progress = progress
        self.tally = Tally()

    def run(self, plan: Plan, *, done: AbstractSet[tuple[str, int]] = frozenset()) -> Tally:
        """Measure every point of `plan` in every pass, except those in `done`; return the tally."""
        doubts = (FewPasses(passes=plan.passes),) if plan.passes < 3 else ()
        for pass_index in range(plan.passes):
            missing = [point for point in plan.points if (point.key, pass_index) not in done]
            if plan.interleaved:
                groups = [
                    [point] for point in (missing if pass_index % 2 == 0 else reversed(missing))
                ]
            else:
                groups = grouped(missing)
            for group in groups:
                self._run_group(group, pass_index, doubts)
        return self.tally

    def _run_group(self, group: list[Point], pass_index: int, doubts: tuple[Doubt, ...]) -> None:
        with self.measuring(pass_index=pass_index, doubts=doubts) as measure:
            for position, point in enumerate(group):
                if self._deadline is not None and self._now() >= self._deadline:
                    self.tally.left_out += len(group) - position
                    return
                measure(point)

    @contextmanager
    def measuring(
        self, *, pass_index: int = 0, doubts: tuple[Doubt, ...] = ()
    ) -> Iterator[Callable[[Point], Measurement]]:
        """Give a function that measures one point at once, for a search that chooses each point.

        The worker is kept for the next point, and replaced if its world or environment differs.
        """
        open_key = ""
        worker: Worker | None = None

        def measure(point: Point) -> Measurement:
            nonlocal worker, open_key
            key = _worker_key(point)
            if worker is not None and key != open_key:
                worker.close()
                worker = None
            self._progress(f"{point.probe} {_short(point.params)}")
            started = datetime.now(UTC).isoformat(timespec="milliseconds")
            try:
                worker, open_key = worker or self._open_worker(point.world, point.environment), key
                record = worker.measure(point, within_s=self._within_s())
            except PointFailed as cause:
                record = failed(point, str(cause))
            except WorkerLost as cause:
                record = failed(point, str(cause))
                if worker is not None:
                    worker.close()
                worker = None
            return self._keep(record, pass_index, started, doubts)

        try:
            yield measure
        finally:
            if worker is not None:
                worker.close()

    def _within_s(self) -> float | None:
        """Return the time limit of a point, so that a hang ends soon after the budget."""
        return None if self._deadline is None else max(self._deadline - self._now(), 0.0) + GRACE_S

    def _keep(
        self, record: Measurement, pass_index: int, started: str, doubts: tuple[Doubt, ...]
    ) -> Measurement:
        shared = self._provenance
        complete = replace(
            record,
            id=short_hash([shared.run, record.point, pass_index, started]),
            run=shared.run,
            node=shared.node,
            origin=shared.origin,
            source=shared.source,
            pass_index=pass_index,
            started_at=started,
            conditions={**record.conditions, **shared.conditions},
            doubts=tuple(dict.fromkeys(itertools.chain(record.doubts, shared.doubts, doubts))),
        )
        self._sink(complete)
        self.tally.count(complete)
        return complete


def _short(params: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in params.items())
