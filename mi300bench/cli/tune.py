"""mi300bench tune."""

from pathlib import Path
from typing import Any

import click

from mi300bench.cli.autotune import job_of, job_options, print_tuned, raise_for_failures
from mi300bench.cli.options import measuring_options, settings_of
from mi300bench.store.reader import read_records
from mi300bench.strategies.ddp import evidence
from mi300bench.strategies.mesh import points, tuning
from mi300bench.strategies.mesh.job import MeshJob
from mi300bench.tuning import tune
from mi300bench.tuning.from_published import from_published, kind_of
from mi300bench.tuning.result import write


@click.command("tune")
@job_options
@click.option(
    "--published",
    default="",
    metavar="DEVICE",
    help="Tune for a device that nobody measured, from published figures alone, such as mi300x; with --ranks and no runs.",
)
@click.option(
    "--confirm/--no-confirm",
    default=True,
    show_default=True,
    help="Prove the pick by fresh interleaved runs.",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=Path("tuned.toml"), show_default=True,
              help="Where the tuned config goes.")  # fmt: skip
@measuring_options
def command(*, published: str, confirm: bool, out: Path, as_json: bool, **options: Any) -> None:
    """Choose a trainer's configuration from what the store holds, and confirm it by fresh runs.

    With --no-confirm nothing is run, so it may be for a node that is not here: from a store brought over, with --node, --device
    and --ranks of that node.
    """
    if published:
        options, confirm = options | {"device": kind_of(published)}, False
    job, shared = job_of(options, is_absent=not confirm)
    with settings_of(**shared) as settings:
        if published:
            tuned = from_published(published, job, settings)
            write(tuned.config, out)
            print_tuned(tuned.config, out, as_json=as_json)
            return
        stored = [
            r for r in read_records(settings.store, warn=settings.say) if r.node == settings.node
        ]
        if isinstance(job, MeshJob):
            records = evidence.latest(r for r in stored if points.belongs(r, job, settings))
            tuned = tune.tune(job, records, settings, confirm_by_runs=confirm)
        else:
            records = evidence.latest(
                r for r in stored if (r.origin, r.source) == (settings.origin, settings.source)
            )
            tuned = tune.tune(job, records, settings, confirm_by_runs=confirm)
    write(tuned.config, out)
    print_tuned(tuned.config, out, as_json=as_json)
    raise_for_failures(tuned)
