"""mi300bench export."""

from pathlib import Path

import click

from mi300bench.api.exporting import TARGETS, export
from mi300bench.errors import NodeError
from mi300bench.schema import config as tuned_config


@click.command("export")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--to", "target", type=click.Choice(list(TARGETS)), required=True, help="Target framework."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write, instead of printing.",
)
def command(*, path: Path, target: str, out: Path | None) -> None:
    """Print a tuned config as the settings of another framework.

    Notes on stderr name the settings that the framework cannot express.
    """
    exported = export(tuned_config.read(path), target)
    for note in exported.notes:
        click.echo(f"note: {note}", err=True)
    if out is None:
        click.echo(exported.text, nl=False)
        return
    try:
        out.write_text(exported.text)
    except OSError as cause:
        raise NodeError(
            f"{out} cannot be written: {cause.strerror}", hint="give another --out"
        ) from cause
