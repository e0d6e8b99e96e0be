"""A plan into the store: one run file, resumed where it was left, every record kept whatever happens."""

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mi300bench.errors import ProbeError, RecordError
from mi300bench.flow.settings import Settings
from mi300bench.hw.inventory import take_inventory
from mi300bench.runner.joined import JoinedWorker, is_joined
from mi300bench.runner.launch import OpenWorker, ProcessWorker, Worker
from mi300bench.runner.session import Provenance, Session, Tally
from mi300bench.schema.plan import Plan
from mi300bench.schema.record import Measurement, World
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


@contextmanager
def workers(settings: Settings) -> Iterator[OpenWorker]:
    """Give a function that opens workers: processes of our own, or this process's part of an outside group."""
    if not is_joined():

        def start(world: World, environment: Mapping[str, str]) -> Worker:
            return ProcessWorker(world, environment, launcher=settings.launcher, limit_s=settings.limit_s)

        yield start
        return
    joined: list[JoinedWorker] = []

    def join(world: World, _environment: Mapping[str, str]) -> Worker:
        if not joined:
            joined.append(JoinedWorker(device=world.device, threads=world.threads, limit_s=settings.limit_s))
        return joined[0]

    try:
        yield join
    finally:
        for worker in joined:
            worker.dismiss()


def measure(plan: Plan, settings: Settings, *, before_store: Callable[[Measurement], None] | None = None) -> Measured:
    """Measure `plan` into the store. Records are on disk one by one; a Ctrl-C leaves the run to be resumed."""
    path = _newest_unfinished(settings, plan) if settings.resume else None
    earlier: tuple[Measurement, ...] = ()
    done: set[tuple[str, int]] = set()
    if path is not None:
        run = read_run(path)
        earlier, done = tuple(r for r in run.records if (r.point, r.pass_index) in run.done()), run.done()
        settings.say(f"resuming {path}: {len(done)} of {len(plan.points) * plan.passes} measurements are there")
    elif settings.resume:
        settings.say("nothing to resume: there is no unfinished run of this plan; starting one")
    header = {
        "plan": plan.key,
        "question": plan.question,
        "passes": plan.passes,
        "points": len(plan.points),
        "origin": str(settings.origin),
        "source": settings.source,
        "system": platform.platform(),
        "mi300bench": version("mi300bench"),
    }
    with RunWriter(settings.store, node=settings.node, header=header, path=path) as writer:
        node = take_inventory(node=settings.node)
        records: list[Measurement] = []
        total = len(plan.points) * plan.passes - len(done)

        def keep(record: Measurement) -> None:
            writer.write(record)
            records.append(record)

        def progress(text: str) -> None:
            if settings.progress is not None:
                settings.progress(text, len(records), total)

        with workers(settings) as open_worker:
            session = Session(
                open_worker=open_worker,
                sink=keep,
                provenance=Provenance(
                    run=writer.run_id,
                    node=settings.node,
                    origin=settings.origin,
                    source=settings.source,
                    doubts=node.doubts,
                    conditions=_node_conditions(asdict(node)),
                ),
                deadline=settings.deadline,
                progress=progress,
            )
            try:
                tally = session.run(plan, done=done)
            except KeyboardInterrupt:
                settings.say(
                    f"interrupted: {len(records)} measurements of this run are saved in {writer.path}; "
                    "the same command with --resume continues"
                )
                raise
        if settings.progress is not None:
            settings.progress("", len(records), total)
        if tally.left_out == 0 and tally.failed == 0:
            writer.finish(ok=tally.ok, wrong=tally.wrong)
        elif tally.left_out:
            settings.say(f"the budget is used up: {tally.left_out} measurements were left out (--resume measures them)")
        return Measured(run=writer.run_id, path=writer.path, records=(*earlier, *records), tally=tally)


def _node_conditions(node: Mapping[str, Any]) -> dict[str, str | int | float | bool | None]:
    return {
        "numa_balancing": node["numa_balancing"],
        "governor": node["governor"],
        "load": round(node["busy_cores"], 2),
        "mi300bench": version("mi300bench"),
    }


def require_all_ok(measured: Measured) -> None:
    """Raise `ProbeError` where a point failed or gave a wrong answer; everything is saved by then."""
    tally = measured.tally
    if tally.failed or tally.wrong:
        shown = "; ".join(tally.reasons[:3]) + ("; ..." if len(tally.reasons) > 3 else "")
        raise ProbeError(
            f"{tally.failed} failed and {tally.wrong} wrong of {tally.ok + tally.failed + tally.wrong} measurements: {shown}",
            hint=f"the rest is saved in {measured.path}; --resume measures what failed",
        )


def only_ok(measured: Measured, *, what: str) -> tuple[Measurement, ...]:
    """Return the records with a speed; `RecordError` where there is none."""
    good = tuple(record for record in measured.records if record.outcome == "ok")
    if not good:
        reason = (
            measured.tally.reasons[0] if measured.tally.reasons else "the budget was used up before the first point"
        )
        raise RecordError(f"{what}: no measurement succeeded ({reason})", hint="a larger --budget, or see the reason")
    return good
