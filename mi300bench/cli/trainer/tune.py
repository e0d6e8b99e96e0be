"""mi300bench tune."""

from pathlib import Path
from typing import Any

import click

from mi300bench.api.jobs import (
    job_from,
    require_no_failures,
    tune_from_figures,
    tune_from_store,
    write,
)
from mi300bench.cli.options import measuring_options, settings_of
from mi300bench.cli.trainer.autotune import job_options, job_options_of, print_tuned


@click.command("tune")
@job_options
@click.option(
    "--published",
    default="",
    metavar="DEVICE",
    help="Tune from the published figures of a device, such as mi300x, without measurements. "
    "Give --ranks too.",
)
@click.option(
    "--confirm/--no-confirm",
    default=True,
    show_default=True,
    help="Confirm the best candidates by fresh interleaved runs.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("tuned.toml"),
    show_default=True,
    help="File for the tuned config.",
)
@measuring_options
def command(*, published: str, confirm: bool, out: Path, as_json: bool, **options: Any) -> None:
    """Tune a trainer from the records of the store, and confirm the result by fresh runs.

    --no-confirm runs nothing, so it can tune for another node: bring its store here, and give the
    --node, --device and --ranks of that node.
    """
    stated, shared = job_options_of(options)
    with settings_of(**shared) as settings:
        if published:
            tuned = tune_from_figures(stated, published, settings)
        else:
            job = job_from(stated, is_absent=not confirm)
            tuned = tune_from_store(job, settings, confirm_by_runs=confirm)
    write(tuned.config, out)
    print_tuned(tuned.config, out, as_json=as_json)
    require_no_failures(tuned)
