"""mi300bench report."""

from pathlib import Path

import click

from mi300bench.api.reporting import write_report
from mi300bench.cli.options import say, store_option
from mi300bench.schema import config as tuned_config


@click.command("report")
@store_option
@click.option(
    "--config",
    "tuned",
    type=click.Path(path_type=Path),
    help="A tuned config, which the report then explains first.",
)
@click.option("--node", default="", help="Use only the records of this node.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="File to write.",
)
def command(*, store: Path, tuned: Path | None, node: str, out: Path) -> None:
    """Write a report of the store: one HTML file that opens offline."""
    config = tuned_config.read(tuned) if tuned else None
    write_report(store, out, tuned=config, node=node, warn=say)
    click.echo(str(out))
