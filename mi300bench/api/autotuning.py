"""The whole job on this machine: measure, tune, confirm; then config and report as files."""

from dataclasses import dataclass, replace
from pathlib import Path

from mi300bench.api.jobs import autotune, write
from mi300bench.api.reporting import write_report
from mi300bench.measurement.settings import Settings
from mi300bench.strategies.job import Job
from mi300bench.tuning.result import Tuned


@dataclass(frozen=True, slots=True, kw_only=True)
class AutotuneFiles:
    """The result of tuning, and the files that it was written to."""

    tuned: Tuned
    config: Path
    report: Path


def autotune_into(
    folder: Path, job: Job, settings: Settings, *, budget_s: float, passes: int | None = None
) -> AutotuneFiles:
    """Tune this machine, and write ``tuned.toml`` and ``report.html`` into `folder`.

    `passes` is the number of fresh processes for each point; None chooses it by the budget.
    """
    unlimited = replace(settings, deadline=None)
    tuned = autotune(job, unlimited, budget_s=budget_s, passes=passes)
    config, report = folder / "tuned.toml", folder / "report.html"
    write(tuned.config, config)
    write_report(settings.store, report, tuned=tuned.config, node=settings.node, warn=settings.say)
    return AutotuneFiles(tuned=tuned, config=config, report=report)
