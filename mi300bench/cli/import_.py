"""mi300bench import."""

import json
import socket
from collections import Counter
from pathlib import Path

import click

from mi300bench.cli.options import json_option, node_option, say, store_option
from mi300bench.errors import RecordError
from mi300bench.flow.importing import Imported, import_files
from mi300bench.flow.settings import Settings
from mi300bench.importers.formats import FORMATS

SHOWN = 12


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--format", "kind", type=click.Choice(["auto", *FORMATS]), default="auto", show_default=True, help="Which tool wrote it."
)
@click.option("--device", "name", default="", help="What it ran on, such as MI300X, where the file does not say.")
@click.option("--check", is_flag=True, help="Say what would be read and what not, and why; write nothing.")
@node_option
@store_option
@json_option
def command(*, paths: tuple[Path, ...], kind: str, name: str, check: bool, node: str, store: Path, as_json: bool) -> None:
    """Read what other tools wrote, every row as a record of origin imported.

    rccl-tests, nccl-tests, BabelStream, hipblaslt-bench, mamf-finder, TransferBench, pytest-benchmark, rocm-smi.
    """
    settings = Settings(store=store, say=say, node=node or socket.gethostname())
    done = import_files(paths, settings, kind=kind, device=name, is_check=check)
    if as_json:
        click.echo(json.dumps([_document(each) for each in done]))
    else:
        for each in done:
            _print(each, is_check=check)
    if check and not all(each.reading.rows for each in done):
        raise RecordError("a file has nothing that could be read", hint="see above, or another --format")


def _document(done: Imported) -> dict[str, object]:
    reading = done.reading
    return {
        "file": str(done.path),
        "tool": reading.tool,
        "device": reading.device,
        "read": len(reading.rows),
        "records": [record.id for record in done.records],
        "not_read": [{"line": s.line, "text": s.text, "why": s.why} for s in reading.skipped],
    }


def _print(done: Imported, *, is_check: bool) -> None:
    reading = done.reading
    probes = ", ".join(f"{count} {probe}" for probe, count in Counter(row.probe for row in reading.rows).items())
    told = f" on {reading.device}" if reading.device else ""
    click.echo(f"{done.path}: {reading.tool}{told}: {probes or 'nothing'} {'would be read' if is_check else 'read'}")
    for name, value in reading.conditions.items():
        click.echo(f"  {name}: {value}")
    for skipped in reading.skipped[:SHOWN]:
        click.echo(f"  line {skipped.line} not read: {skipped.why}: {skipped.text}")
    if len(reading.skipped) > SHOWN:
        click.echo(f"  and {len(reading.skipped) - SHOWN} more lines were not read")
