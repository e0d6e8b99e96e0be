"""Reading a store. A torn last line, as after a kill, is skipped; other damage is an error."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mi300bench.errors import RecordError
from mi300bench.schema.codec import decode
from mi300bench.schema.record import Measurement, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run file. `finished`: the run is complete. `torn`: the last line is incomplete."""

    path: Path
    header: dict[str, Any]
    records: tuple[Measurement, ...]
    finished: bool
    torn: bool

    def done(self) -> set[tuple[str, int]]:
        """Return the point keys and passes that `--resume` need not repeat: all but the failed."""
        return {(r.point, r.pass_index) for r in self.records if r.outcome is not Outcome.FAILED}


def _parsed(line: bytes) -> Any:
    """Return the value of a line of JSON; raise `ValueError` if it is not JSON.

    NaN and infinity, which Python writes and JSON lacks, are read too.
    """
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return json.loads(line)


def _lines(path: Path) -> tuple[list[dict[str, Any]], bool]:
    try:
        data = path.read_bytes()
    except OSError as cause:
        raise RecordError(
            f"{path} cannot be read: {cause.strerror}", hint="check its permissions"
        ) from cause
    pieces = data.split(b"\n")
    torn = bool(pieces[-1].strip())
    documents = []
    for number, line in enumerate(pieces[:-1], start=1):
        if not line.strip():
            continue
        try:
            document = _parsed(line)
        except ValueError as cause:
            raise RecordError(
                f"{path}:{number} is not JSON: {cause}",
                hint="restore the file from a copy, or move it out of the store",
            ) from cause
        if not isinstance(document, dict):
            raise RecordError(
                f"{path}:{number} is not a JSON object",
                hint="restore the file from a copy, or move it out of the store",
            )
        documents.append(document | {"_line": number})
    return documents, torn


def read_run(path: Path) -> Run:
    """Return the run of a file."""
    documents, torn = _lines(path)
    header: dict[str, Any] = {}
    records = []
    finished = False
    for document in documents:
        number = document.pop("_line")
        match document.pop("line", "record"):
            case "run":
                header = document
            case "end":
                finished = True
            case _:
                try:
                    records.append(decode(document))
                except RecordError as cause:
                    raise RecordError(f"{path}:{number}: {cause}", hint=cause.hint) from cause
    return Run(path=path, header=header, records=tuple(records), finished=finished, torn=torn)


def run_paths(store: Path) -> list[Path]:
    """Return all run files, by node and then by run id, which sorts by time.

    `store` may also be the folder of one node.
    """
    return sorted(store.glob("*/*.jsonl")) or sorted(store.glob("*.jsonl"))


def read_runs(store: Path, *, warn: Callable[[str], None] | None = None) -> Iterator[Run]:
    """Yield every run of the store; `warn` receives a message for each torn line."""
    if not store.is_dir():
        raise RecordError(
            f"there is no store at {store}",
            hint="measure something first, or give another --store",
        )
    for path in run_paths(store):
        run = read_run(path)
        if run.torn and warn is not None:
            warn(f"{path}: skipped the last line, which is torn (by a kill or a full disk)")
        yield run


def read_records(
    store: Path, *, warn: Callable[[str], None] | None = None
) -> tuple[Measurement, ...]:
    """Return every record of the store."""
    return tuple(record for run in read_runs(store, warn=warn) for record in run.records)
