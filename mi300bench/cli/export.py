"""mi300bench export."""

from pathlib import Path

import click

from mi300bench.errors import NodeError
from mi300bench.export.ddp import TARGETS, export
from mi300bench.schema import config as tuned_config


@click.command("export")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--to", "target", type=click.Choice(list(TARGETS)), required=True, help="For which framework.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write a file instead of printing.")
def command(*, path: Path, target: str, out: Path | None) -> None:
    """Print a tuned config as another framework's settings."""
    text = export(tuned_config.read(path), target)
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        out.write_text(text)
    except OSError as cause:
        raise NodeError(f"{out} cannot be written: {cause.strerror}", hint="give another --out") from cause
