"""mi300bench query."""

import json
from pathlib import Path
from typing import Any

import click

from mi300bench.api.measuring import query_store
from mi300bench.cli import show
from mi300bench.cli.options import json_option, say, store_option


@click.command("query")
@click.argument(
    "sql",
    default="SELECT probe, outcome, count(*) AS records FROM records GROUP BY ALL ORDER BY ALL",
)
@store_option
@json_option
def command(*, sql: str, store: Path, as_json: bool) -> None:
    """Run an SQL query on the records of the store, which are the table "records".

    For example: SELECT params->>'bytes', bandwidth FROM records. Without SQL it counts the records
    by probe and outcome.
    """
    rows = query_store(store, sql, warn=say)
    if as_json:
        click.echo(json.dumps(rows, default=str))
    elif rows:
        show.table(tuple(rows[0]), [[_cell(value) for value in row.values()] for row in rows])


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
