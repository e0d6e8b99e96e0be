"""A node that is not here and that nobody measured: tuned from published figures, labelled so, with wide intervals."""

from dataclasses import replace

from mi300bench.measurement.settings import Settings
from mi300bench.published.figures import PublishedDevice
from mi300bench.store.writer import RunWriter
from mi300bench.strategies.job import Job
from mi300bench.strategies.table import strategy_of
from mi300bench.tuning.result import Tuned
from mi300bench.tuning.tune import tune


def tune_from_published(job: Job, device: PublishedDevice, settings: Settings) -> Tuned:
    """Return the config for a device that nobody measured; its records are kept in the store, labelled."""
    records = list(strategy_of(job).published_records(job, device))
    first = records[0]
    question = f"What would published figures say of {first.device}?"
    header = {"question": question, "plan": "", "passes": 1, "points": len(records)}
    with RunWriter(settings.store, node=first.node, header=header) as writer:
        kept = [replace(record, run=writer.run_id) for record in records]
        for record in kept:
            writer.write(record)
        writer.finish()
    return tune(job, kept, settings, confirm_by_runs=False)
