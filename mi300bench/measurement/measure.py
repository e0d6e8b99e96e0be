"""A plan into the store: one run file, resumed where it was left, every record kept whatever happens."""

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
    """The records of one plan, those of a resumed run included, and how the measuring went."""

    run: str
    path: Path
    records: tuple[Measurement, ...]
    tally: Tally


def _newest_unfinished(settings: Settings, plan: Plan) -> Path | None:
    """Return the newest unfinished run of the same plan on this node, or None."""
    for path in sorted((settings.store / settings.node).glob("*.jsonl"), reverse=True):
        run = read_run(path)
        if run.header.get("plan") == plan.key and not run.finished:
            return path
    return None


def _refuse_what_a_group_cannot(plan: Plan) -> None:
    """Raise where a plan does not fit the group that an outside launcher made."""
    if any(point.environment for point in plan.points):
        raise PlanError(
            "an environment of its own cannot be given to a group that runs already",
            hint="set the variables for torchrun itself, or run without torchrun",
        )
    require_joined(tuple({point.world.ranks for point in plan.points}))
    if os.environ["RANK"] != "0":
        raise PlanError(
            "this command measures alone and was started on every rank",
            hint="run it without torchrun",
        )


@contextmanager
def workers(settings: Settings, plan: Plan) -> Iterator[OpenWorker]:
    """Give a function that opens workers: processes of our own, or this process's part of an outside group."""
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
    """Return the run file to continue and the records in it that need no repetition; (None, ()) to start anew."""
    path = _newest_unfinished(settings, plan) if settings.resume else None
    if path is None:
        if settings.resume:
            settings.say("nothing to resume: there is no unfinished run of this plan; starting one")
        return None, ()
    run = read_run(path)
    kept = tuple(
        record for record in run.records if (record.point, record.pass_index) in run.done()
    )
    settings.say(
        f"resuming {path}: {len(kept)} of {len(plan.points) * plan.passes} measurements are there"
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
    """The records of a run so far, written and counted."""

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
    """Give a session that writes into `writer`; a Ctrl-C says what is saved."""
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
                f"interrupted: {len(kept.records)} measurements of this run are saved in {writer.path}; "
                "the same command with --resume continues"
            )
            raise
    kept.progress("")


def measure(plan: Plan, settings: Settings) -> Measured:
    """Measure `plan` into the store. Records are on disk one by one; a Ctrl-C leaves the run to be resumed."""
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
                f"the budget is used up: {tally.left_out} measurements were left out (--resume measures them)"
            )
        elif not tally.failed:
            writer.finish(ok=tally.ok, wrong=tally.wrong)
        return Measured(
            run=writer.run_id, path=writer.path, records=(*earlier, *kept.records), tally=tally
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """An open run whose points are decided one by one. `ask` measures one now; `done` sums up the run so far."""

    ask: Callable[[Point], Measurement]
    done: Callable[[], Measured]


@contextmanager
def asking(plan: Plan, settings: Settings) -> Iterator[Asking]:
    """Open a run for a search, which asks for points of `plan` in its own order; what it does not ask for is not missing."""
    if is_joined():
        _refuse_what_a_group_cannot(plan)
    with RunWriter(settings.store, node=settings.node, header=_header(plan, settings)) as writer:
        kept = _Kept(writer, settings, len(plan.points), [])
        with (
            _session(settings, plan, writer, kept) as session,
            session.measuring(doubts=(FewPasses(passes=1),)) as ask,
        ):

            def done() -> Measured:
                return Measured(
                    run=writer.run_id,
                    path=writer.path,
                    records=tuple(kept.records),
                    tally=session.tally,
                )

            yield Asking(ask=ask, done=done)
        writer.finish(ok=session.tally.ok, wrong=session.tally.wrong)


def require_all_ok(measured: Measured) -> None:
    """Raise `ProbeError` where a point failed or gave a wrong answer; everything is saved by then."""
    bad = [
        record
        for record in measured.records
        if record.outcome in (Outcome.FAILED, Outcome.WRONG_ANSWER)
    ]
    if bad:
        shown = "; ".join(f"{r.probe} {dict(r.params)}: {r.reason}" for r in bad[:3]) + (
            "; ..." if len(bad) > 3 else ""
        )
        raise ProbeError(
            f"{len(bad)} of {len(measured.records)} measurements failed or gave a wrong answer: {shown}",
            hint=f"the rest is saved in {measured.path}; --resume measures what failed",
        )


def only_ok(measured: Measured, *, what: str) -> tuple[Measurement, ...]:
    """Return the records with a speed; `ProbeError` where there is none."""
    good = tuple(record for record in measured.records if record.outcome == "ok")
    if not good:
        reason = (
            measured.tally.reasons[0]
            if measured.tally.reasons
            else "the budget was used up before the first point"
        )
        raise ProbeError(
            f"{what}: no measurement succeeded ({reason})",
            hint="a larger --budget (5m is usual), or see the reason",
        )
    return good
