"""A session measures a plan: pass by pass, each in fresh processes, one record per point and pass.

A crash, a hang or a kill costs the point in flight, recorded as failed with the reason; the worker is
replaced. Points that the budget leaves out are counted, never dropped in silence.
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
# A point that began within the budget may end this long after it.
GRACE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What the session knows of every record it makes."""

    run: str
    node: str
    origin: Origin = Origin.MEASURED
    source: str = ""
    doubts: tuple[Doubt, ...] = ()
    conditions: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Tally:
    """How a session went."""

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
    """Return the record of a point that has no result."""
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
    """Return points by the worker they share: one environment, one world."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(_worker_key(point), []).append(point)
    return list(groups.values())


def _worker_key(point: Point) -> str:
    return short_hash([dict(point.environment), asdict(point.world)])


class Session:
    """Measures points and hands each record to the sink as soon as it exists."""

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
        """Measure every point of `plan` in every pass, except what is `done`; return how it went."""
        few = (FewPasses(passes=plan.passes),) if plan.passes < 3 else ()
        for pass_index in range(plan.passes):
            missing = [point for point in plan.points if (point.key, pass_index) not in done]
            if plan.interleaved:
                groups = [
                    [point] for point in (missing if pass_index % 2 == 0 else reversed(missing))
                ]
            else:
                groups = grouped(missing)
            for group in groups:
                self._run_group(group, pass_index, few)
        return self.tally

    def _run_group(self, group: list[Point], pass_index: int, doubts: tuple[Doubt, ...]) -> None:
        with self.asking(pass_index=pass_index, doubts=doubts) as ask:
            for position, point in enumerate(group):
                if self._deadline is not None and self._now() >= self._deadline:
                    self.tally.left_out += len(group) - position
                    return
                ask(point)

    @contextmanager
    def asking(
        self, *, pass_index: int = 0, doubts: tuple[Doubt, ...] = ()
    ) -> Iterator[Callable[[Point], Measurement]]:
        """Give a function that measures one point now, in a worker that stays for the next of the same world.

        A search decides from the last answer what to ask next. A point of another world or environment gets its own worker.
        """
        open_for = ""
        worker: Worker | None = None

        def ask(point: Point) -> Measurement:
            nonlocal worker, open_for
            key = _worker_key(point)
            if worker is not None and key != open_for:
                worker.close()
                worker = None
            self._progress(f"{point.probe} {_short(point.params)}")
            started = datetime.now(UTC).isoformat(timespec="milliseconds")
            try:
                worker, open_for = worker or self._open_worker(point.world, point.environment), key
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
            yield ask
        finally:
            if worker is not None:
                worker.close()

    def _within_s(self) -> float | None:
        """Return how long a point may take at most: a hang must not outlast the budget by more than a minute."""
        return None if self._deadline is None else max(self._deadline - self._now(), 0.0) + GRACE_S

    def _keep(
        self, record: Measurement, pass_index: int, started: str, doubts: tuple[Doubt, ...]
    ) -> Measurement:
        known = self._provenance
        complete = replace(
            record,
            id=short_hash([known.run, record.point, pass_index, started]),
            run=known.run,
            node=known.node,
            origin=known.origin,
            source=known.source,
            pass_index=pass_index,
            started_at=started,
            conditions={**record.conditions, **known.conditions},
            doubts=tuple(dict.fromkeys(itertools.chain(record.doubts, known.doubts, doubts))),
        )
        self._sink(complete)
        self.tally.count(complete)
        return complete


def _short(params: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in params.items())
