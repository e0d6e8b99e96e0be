"""Measure a plan into the store: one file for a run, written record by record, and resumable."""

import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mi300bench.errors import PlanError, ProbeError
from mi300bench.hw.inventory import take_inventory
from mi300bench.measurement.settings import Settings
from mi300bench.runner.external_launcher import JoinedWorker, is_joined, require_joined
from mi300bench.runner.launch import OpenWorker, ProcessWorker, Worker
from mi300bench.runner.session import Provenance, Session, Tally
from mi300bench.schema.doubt import FewPasses
from mi300bench.schema.plan import Plan, Point
from mi300bench.schema.record import Measurement, Outcome, World
from mi300bench.store.reader import read_run
from mi300bench.store.writer import RunWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The records of one plan, with those of the run that it resumed, and how measuring went."""

    run: str
    path: Path
    records: tuple[Measurement, ...]
    tally: Tally


def _newest_unfinished(settings: Settings, plan: Plan) -> Path | None:
    """Return the file of the newest unfinished run of the same plan on this node, or None."""
    for path in sorted((settings.store / settings.node).glob("*.jsonl"), reverse=True):
        run = read_run(path)
        if run.header.get("plan") == plan.key and not run.finished:
            return path
    return None


def _refuse_what_a_group_cannot(plan: Plan) -> None:
    """Raise where a group that an outside launcher started cannot measure the plan."""
    if any(point.environment for point in plan.points):
        raise PlanError(
            "the plan sets environment variables, which ranks that are running already cannot take",
            hint="set the variables for torchrun itself, or run without torchrun",
        )
    require_joined(tuple({point.world.ranks for point in plan.points}))
    if os.environ["RANK"] != "0":
        raise PlanError(
            "this command runs in one process, but the launcher started it on every rank",
            hint="run it without the launcher",
        )


@contextmanager
def workers(settings: Settings, plan: Plan) -> Iterator[OpenWorker]:
    """Give a function that opens workers: own processes, or under a launcher this process."""
    if not is_joined():

        def start(world: World, environment: Mapping[str, str]) -> Worker:
            return ProcessWorker(
                world, environment, launcher=settings.launcher, limit_s=settings.limit_s
            )

        yield start
        return
    first = plan.points[0].world
    worker = JoinedWorker(device=first.device, threads=first.threads, limit_s=settings.limit_s)
    try:
        yield lambda _world, _environment: worker
    finally:
        worker.dismiss()


def _resumed(plan: Plan, settings: Settings) -> tuple[Path | None, tuple[Measurement, ...]]:
    """Return the file of the run to continue and its records that are kept; (None, ()) to start."""
    path = _newest_unfinished(settings, plan) if settings.resume else None
    if path is None:
        if settings.resume:
            settings.say("there is no unfinished run of this plan to resume: a new one starts")
        return None, ()
    run = read_run(path)
    kept = tuple(
        record for record in run.records if (record.point, record.pass_index) in run.done()
    )
    settings.say(
        f"resuming {path}: it has {len(kept)} of {len(plan.points) * plan.passes} measurements"
    )
    return path, kept


def _header(plan: Plan, settings: Settings) -> dict[str, Any]:
    return {
        "plan": plan.key,
        "question": plan.question,
        "passes": plan.passes,
        "points": len(plan.points),
        "origin": str(settings.origin),
        "source": settings.source,
        "system": platform.platform(),
        "mi300bench": version("mi300bench"),
    }


def _provenance(run: str, settings: Settings) -> Provenance:
    node = take_inventory(node=settings.node)
    return Provenance(
        run=run,
        node=settings.node,
        origin=settings.origin,
        source=settings.source,
        doubts=node.doubts,
        conditions={
            "numa_balancing": node.numa_balancing,
            "governor": node.governor,
            "load": round(node.busy_cores, 2),
            "mi300bench": version("mi300bench"),
        },
    )


@dataclass(slots=True)
class _Kept:
    """The records of a run so far. `total` is the number of measurements expected."""

    writer: RunWriter
    settings: Settings
    total: int
    records: list[Measurement]

    def keep(self, record: Measurement) -> None:
        self.writer.write(record)
        self.records.append(record)

    def progress(self, text: str) -> None:
        if self.settings.progress is not None:
            self.settings.progress(text, len(self.records), self.total)


@contextmanager
def _session(settings: Settings, plan: Plan, writer: RunWriter, kept: _Kept) -> Iterator[Session]:
    """Give a session that writes into `writer`; on Ctrl-C a message names what is saved."""
    with workers(settings, plan) as open_worker:
        session = Session(
            open_worker=open_worker,
            sink=kept.keep,
            provenance=_provenance(writer.run_id, settings),
            deadline=settings.deadline,
            progress=kept.progress,
        )
        try:
            yield session
        except KeyboardInterrupt:
            settings.say(
                f"interrupted: {len(kept.records)} measurements are saved in {writer.path}; "
                "to continue, give the same command with --resume"
            )
            raise
    kept.progress("")


def measure(plan: Plan, settings: Settings) -> Measured:
    """Measure `plan` into the store.

    Each record is written as soon as it exists, so a run that was interrupted can be resumed.
    """
    if is_joined():
        _refuse_what_a_group_cannot(plan)
    path, earlier = _resumed(plan, settings)
    done = {(record.point, record.pass_index) for record in earlier}
    total = len(plan.points) * plan.passes - len(done)
    with RunWriter(
        settings.store, node=settings.node, header=_header(plan, settings), path=path
    ) as writer:
        kept = _Kept(writer, settings, total, [])
        with _session(settings, plan, writer, kept) as session:
            tally = session.run(plan, done=done)
        if tally.left_out:
            settings.say(
                f"the budget is used up: {tally.left_out} measurements were left out; "
                "to make them, give the same command with --resume"
            )
        elif not tally.failed:
            writer.finish(ok=tally.ok, wrong=tally.wrong)
        return Measured(
            run=writer.run_id, path=writer.path, records=(*earlier, *kept.records), tally=tally
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveRun:
    """An open run whose points are chosen one by one.

    `measure` measures a point now; `done` returns the run so far.
    """

    measure: Callable[[Point], Measurement]
    done: Callable[[], Measured]


@contextmanager
def adaptive_run(plan: Plan, settings: Settings) -> Iterator[AdaptiveRun]:
    """Open a run whose points are chosen from earlier results, such as that of a search.

    `plan` gives the question. Points of it that are not measured do not count as missing.
    """
    if is_joined():
        _refuse_what_a_group_cannot(plan)
    with RunWriter(settings.store, node=settings.node, header=_header(plan, settings)) as writer:
        kept = _Kept(writer, settings, len(plan.points), [])
        with (
            _session(settings, plan, writer, kept) as session,
            session.measuring(doubts=(FewPasses(passes=1),)) as measure_point,
        ):

            def done() -> Measured:
                return Measured(
                    run=writer.run_id,
                    path=writer.path,
                    records=tuple(kept.records),
                    tally=session.tally,
                )

            yield AdaptiveRun(measure=measure_point, done=done)
        writer.finish(ok=session.tally.ok, wrong=session.tally.wrong)


def require_all_ok(measured: Measured) -> None:
    """Raise `ProbeError` where a point failed or gave a wrong answer."""
    bad = [
        record
        for record in measured.records
        if record.outcome in (Outcome.FAILED, Outcome.WRONG_ANSWER)
    ]
    if bad:
        shown = "; ".join(f"{r.probe} {dict(r.params)}: {r.reason}" for r in bad[:3])
        more = "; ..." if len(bad) > 3 else ""
        raise ProbeError(
            f"{len(bad)} of {len(measured.records)} measurements failed or gave a wrong answer: "
            f"{shown}{more}",
            hint=f"all records are saved in {measured.path}; "
            "to repeat what failed, give the same command with --resume",
        )


def only_ok(measured: Measured, *, what: str) -> tuple[Measurement, ...]:
    """Return the records with a speed; raise `ProbeError` where there is none."""
    good = tuple(record for record in measured.records if record.outcome is Outcome.OK)
    if not good:
        reason = (
            measured.tally.reasons[0]
            if measured.tally.reasons
            else "the budget ended before the first point"
        )
        raise ProbeError(
            f"{what}: no measurement succeeded ({reason})",
            hint="fix the cause, or give a larger --budget (5m is usual)",
        )
    return good
