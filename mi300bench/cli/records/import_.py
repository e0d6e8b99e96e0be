"""mi300bench import."""

import json
from collections import Counter
from pathlib import Path

import click

from mi300bench.api.importing import FORMATS, Imported, import_logs, require_rows
from mi300bench.cli.options import json_option, node_option, store_option, store_settings

SHOWN = 12


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["auto", *FORMATS]),
    default="auto",
    show_default=True,
    help="Tool that wrote the files.",
)
@click.option(
    "--device",
    "name",
    default="",
    help="Device of the run, such as MI300X. Replaces the one in the file.",
)
@click.option(
    "--date",
    "when",
    default="",
    help="Date of the run, such as 2026-10-05. Replaces the one in the file. Histories need it.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Show what can be read, and what cannot and why. Write nothing.",
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
    """Import the logs of other tools: each row becomes a record of origin imported.

    The tools are rccl-tests, nccl-tests, BabelStream, hipblaslt-bench, mamf-finder, TransferBench,
    pytest-benchmark and rocm-smi.
    """
    settings = store_settings(store, node)
    files = import_logs(paths, settings, kind=kind, device=name, date=when, is_check=check)
    if as_json:
        click.echo(json.dumps([_document(each) for each in files]))
    else:
        for each in files:
            _print(each, is_check=check)
    if check:
        require_rows(files)


def _document(file: Imported) -> dict[str, object]:
    reading = file.reading
    return {
        "file": str(file.path),
        "tool": reading.tool,
        "device": reading.device,
        "read": len(reading.rows),
        "records": [record.id for record in file.records],
        "earlier_run": file.earlier,
        "wrong": [
            {reading.counts: row.line, "why": row.wrong} for row in reading.rows if row.wrong
        ],
        "not_read": [
            {reading.counts: s.line, "text": s.text, "why": s.why} for s in reading.skipped
        ],
    }


def _print(file: Imported, *, is_check: bool) -> None:
    reading = file.reading
    counts = Counter(row.probe for row in reading.rows)
    rows = ", ".join(f"{count} {probe}" for probe, count in counts.items()) or "no row"
    device = f" on {reading.device}" if reading.device else ""
    click.echo(f"{file.path}: {reading.tool}{device}: {rows} {_state(file, is_check=is_check)}")
    if wrong := [row for row in reading.rows if row.wrong]:
        first = wrong[0]
        click.echo(
            f"  {len(wrong)} with a wrong answer, the first at {reading.counts} {first.line}: "
            f"{first.wrong}"
        )
    for name, value in reading.conditions.items():
        click.echo(f"  {name}: {value}")
    for skipped in reading.skipped[:SHOWN]:
        click.echo(f"  {reading.counts} {skipped.line} not read: {skipped.why}: {skipped.text}")
    if len(reading.skipped) > SHOWN:
        click.echo(f"  {len(reading.skipped) - SHOWN} more not read; to see all: --json")


def _state(file: Imported, *, is_check: bool) -> str:
    if file.earlier:
        return f"already in the store, as run {file.earlier}"
    return "can be read" if is_check else "imported"
