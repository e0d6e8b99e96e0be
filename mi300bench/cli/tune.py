"""mi300bench tune."""

from pathlib import Path
from typing import Any

import click

from mi300bench.cli.autotune import job_of, job_options, print_tuned, raise_for_failures
from mi300bench.cli.options import measuring_options, settings_of
from mi300bench.flow import evidence, tuning
from mi300bench.store.reader import read_records


@click.command("tune")
@job_options
@click.option("--confirm/--no-confirm", default=True, show_default=True, help="Prove the pick by fresh interleaved runs.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=Path("tuned.toml"), show_default=True,
              help="Where the tuned config goes.")  # fmt: skip
@measuring_options
def command(*, confirm: bool, out: Path, as_json: bool, **options: Any) -> None:
    """Choose a trainer's configuration from what the store holds, and confirm it by fresh runs."""
    job, shared = job_of(options)
    with settings_of(**shared) as settings:
        stored = read_records(settings.store, warn=settings.say)
        records = evidence.latest(
            r for r in stored if r.node == settings.node and (r.origin, r.source) == (settings.origin, settings.source)
        )
        tuned = tuning.tune(job, records, settings, confirm=confirm)
    tuning.write(tuned.config, out)
    print_tuned(tuned.config, out, as_json=as_json)
    raise_for_failures(tuned)
