"""SQL over the records, by DuckDB. Mappings such as `params` are JSON columns."""

import json
from collections.abc import Iterable
from typing import Any

from mi300bench import physics, stats
from mi300bench.errors import PlanError
from mi300bench.schema.record import Measurement, Outcome

COLUMNS = (
    "id",
    "run",
    "node",
    "device",
    "probe",
    "method",
    "outcome",
    "reason",
    "params",
    "world",
    "environment",
    "pass_index",
    "calls_per_sample",
    "num_samples",
    "seconds",
    "bandwidth",
    "flop_rate",
    "message_bytes",
    "algbw",
    "busbw",
    "conditions",
    "doubts",
    "origin",
    "source",
    "started_at",
)


def row(record: Measurement) -> dict[str, Any]:
    """Return a record as a row. `seconds` is the median per call; rates without work are NULL."""
    seconds = stats.seconds_per_call(record) if record.outcome is Outcome.OK else None
    work = record.work
    bytes_moved = work.bytes_read + work.bytes_written
    return {
        "id": record.id,
        "run": record.run,
        "node": record.node,
        "device": record.device,
        "probe": record.probe,
        "method": record.method,
        "outcome": str(record.outcome),
        "reason": record.reason,
        "params": json.dumps(dict(record.params)),
        "world": f"{record.world.device} x{record.world.ranks}",
        "environment": json.dumps(dict(record.environment)),
        "pass_index": record.pass_index,
        "calls_per_sample": record.calls_per_sample,
        "num_samples": len(record.samples),
        "seconds": seconds,
        "bandwidth": stats.bandwidth(work, seconds) if seconds and bytes_moved else None,
        "flop_rate": stats.flop_rate(work, seconds) if seconds and work.flop else None,
        "message_bytes": work.message_bytes or None,
        **_bandwidths(record, seconds),
        "conditions": json.dumps(dict(record.conditions)),
        "doubts": json.dumps([str(doubt) for doubt in record.doubts]),
        "origin": str(record.origin),
        "source": record.source,
        "started_at": record.started_at,
    }


def _bandwidths(record: Measurement, seconds: float | None) -> dict[str, float | None]:
    """Return algbw and busbw of a collective; None for other probes.

    busbw is also None if the record does not have the number of ranks.
    """
    size, ranks = record.work.message_bytes, record.world.ranks
    op = record.probe.rpartition("collective.")[2]
    if not seconds or not size or op not in physics.COLLECTIVES or op == record.probe:
        return {"algbw": None, "busbw": None}
    return {
        "algbw": physics.algbw(size, seconds),
        "busbw": physics.busbw(op, size, seconds, ranks) if ranks > 1 else None,
    }


def query(records: Iterable[Measurement], sql: str) -> list[dict[str, Any]]:
    """Return the rows that `sql` selects from table ``records``; invalid SQL is a `PlanError`."""
    import duckdb
    import pandas

    table = pandas.DataFrame([row(record) for record in records], columns=list(COLUMNS))
    with duckdb.connect() as connection:
        connection.register("plain", table)
        connection.execute(
            "CREATE TABLE records AS SELECT * REPLACE ("
            "params::JSON AS params, environment::JSON AS environment, "
            "conditions::JSON AS conditions, doubts::JSON AS doubts) FROM plain"
        )
        try:
            answer = connection.execute(sql)
        except duckdb.Error as cause:
            raise PlanError(
                f"the query failed: {cause}",
                hint=f"select from the table records, with columns {', '.join(COLUMNS)}",
            ) from cause
        if answer.description is None:
            return []
        names = [column[0] for column in answer.description]
        return [dict(zip(names, values, strict=True)) for values in answer.fetchall()]
