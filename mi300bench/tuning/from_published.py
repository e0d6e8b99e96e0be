"""A config for a node that nobody measured, from published figures.

Its records are labelled as modelled, and its intervals are wide.
"""

from dataclasses import replace

from mi300bench.measurement.settings import Settings
from mi300bench.published.figures import PublishedDevice
from mi300bench.store.writer import RunWriter
from mi300bench.strategies.job import Job
from mi300bench.strategies.table import strategy_of
from mi300bench.tuning.result import Tuned
from mi300bench.tuning.tune import tune


def tune_from_published(job: Job, device: PublishedDevice, settings: Settings) -> Tuned:
    """Return the config for a device that nobody measured. Its records are stored as modelled."""
    records = list(strategy_of(job).published_records(job, device))
    first = records[0]
    question = f"How fast is {first.device} according to published figures?"
    header = {"question": question, "plan": "", "passes": 1, "points": len(records)}
    with RunWriter(settings.store, node=first.node, header=header) as writer:
        kept = [replace(record, run=writer.run_id) for record in records]
        for record in kept:
            writer.write(record)
        writer.finish()
    return tune(job, kept, settings, confirm_by_runs=False)
