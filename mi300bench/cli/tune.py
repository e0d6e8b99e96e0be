"""mi300bench tune."""

from pathlib import Path
from typing import Any

import click

from mi300bench.api.jobs import job_from, tune_from_figures, tune_from_store, write
from mi300bench.cli.autotune import job_options, job_options_of, print_tuned, raise_for_failures
from mi300bench.cli.options import measuring_options, settings_of


@click.command("tune")
@job_options
@click.option(
    "--published",
    default="",
    metavar="DEVICE",
    help="Tune for a device that nobody measured, from published figures alone, such as mi300x; "
    "with --ranks and no runs.",
)
@click.option(
    "--confirm/--no-confirm",
    default=True,
    show_default=True,
    help="Confirm the pick by fresh interleaved runs.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("tuned.toml"),
    show_default=True,
    help="Where the tuned config goes.",
)
@measuring_options
def command(*, published: str, confirm: bool, out: Path, as_json: bool, **options: Any) -> None:
    """Choose a trainer's configuration from what the store holds, and confirm it by fresh runs.

    With --no-confirm nothing is run, so it may be for a node that is not here: from a store brought
    over, with --node, --device and --ranks of that node.
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
    raise_for_failures(tuned)
