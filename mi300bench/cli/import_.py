"""mi300bench import."""

import json
import socket
from collections import Counter
from pathlib import Path

import click

from mi300bench.cli.options import json_option, node_option, say, store_option
from mi300bench.errors import PlanError, RecordError
from mi300bench.ingest.formats import FORMATS
from mi300bench.ingest.reading import date_of
from mi300bench.ingest.store_files import Imported, import_files
from mi300bench.measurement.settings import Settings

SHOWN = 12


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["auto", *FORMATS]),
    default="auto",
    show_default=True,
    help="Which tool wrote it.",
)
@click.option(
    "--device",
    "name",
    default="",
    help="What it ran on, such as MI300X, where the file does not say.",
)
@click.option(
    "--date",
    "when",
    default="",
    help="When it ran, such as 2026-10-05, where the file does not say: for histories.",
)
@click.option(
    "--check", is_flag=True, help="Say what would be read and what not, and why; write nothing."
)
@node_option
@store_option
@json_option
def command(
    *,
    paths: tuple[Path, ...],
    kind: str,
    name: str,
    when: str,
    check: bool,
    node: str,
    store: Path,
    as_json: bool,
) -> None:
    """Read what other tools wrote, every row as a record of origin imported.

    rccl-tests, nccl-tests, BabelStream, hipblaslt-bench, mamf-finder, TransferBench, pytest-benchmark, rocm-smi.
    """
    settings = Settings(store=store, say=say, node=node or socket.gethostname())
    began = date_of(when)
    if when and not began:
        raise PlanError(f"--date {when!r} is no date", hint="--date 2026-10-05 or 2026-10-05T14:30")
    done = import_files(paths, settings, kind=kind, device=name, began=began, is_check=check)
    if as_json:
        click.echo(json.dumps([_document(each) for each in done]))
    else:
        for each in done:
            _print(each, is_check=check)
    if check and not all(each.reading.rows for each in done):
        raise RecordError(
            "a file has nothing that could be read", hint="see above, or another --format"
        )


def _document(done: Imported) -> dict[str, object]:
    reading = done.reading
    return {
        "file": str(done.path),
        "tool": reading.tool,
        "device": reading.device,
        "read": len(reading.rows),
        "records": [record.id for record in done.records],
        "earlier_run": done.earlier,
        "wrong": [
            {reading.counts: row.line, "why": row.wrong} for row in reading.rows if row.wrong
        ],
        "not_read": [
            {reading.counts: s.line, "text": s.text, "why": s.why} for s in reading.skipped
        ],
    }


def _print(done: Imported, *, is_check: bool) -> None:
    reading = done.reading
    probes = ", ".join(
        f"{count} {probe}" for probe, count in Counter(row.probe for row in reading.rows).items()
    )
    told = f" on {reading.device}" if reading.device else ""
    how = (
        f"there already, as run {done.earlier}"
        if done.earlier
        else "would be read"
        if is_check
        else "read"
    )
    click.echo(f"{done.path}: {reading.tool}{told}: {probes or 'nothing'} {how}")
    if wrong := [row for row in reading.rows if row.wrong]:
        click.echo(
            f"  {len(wrong)} with a wrong answer, such as {reading.counts} {wrong[0].line}: {wrong[0].wrong}"
        )
    for name, value in reading.conditions.items():
        click.echo(f"  {name}: {value}")
    for skipped in reading.skipped[:SHOWN]:
        click.echo(f"  {reading.counts} {skipped.line} not read: {skipped.why}: {skipped.text}")
    if len(reading.skipped) > SHOWN:
        click.echo(f"  and {len(reading.skipped) - SHOWN} more were not read")
