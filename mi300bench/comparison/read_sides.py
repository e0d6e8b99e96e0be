"""The records of a side, given as ``node:NAME``, ``run:ID``, or the folder of a store or a node."""

from collections.abc import Callable
from pathlib import Path

from mi300bench.comparison.sides import ATTRIBUTES
from mi300bench.errors import PlanError, RecordError
from mi300bench.schema.record import Measurement
from mi300bench.store.reader import read_records

NODE, RUN = "node:", "run:"


def records_of_side(text: str, store: Path, warn: Callable[[str], None]) -> tuple[Measurement, ...]:
    """Return the records of the side `text`; `PlanError` where `text` names none."""
    if text.startswith((NODE, RUN)):
        kind, _, name = text.partition(":")
        attribute = ATTRIBUTES[kind]
        records = tuple(r for r in read_records(store, warn=warn) if attribute(r) == name)
        if not records:
            known = sorted({attribute(r) for r in read_records(store, warn=warn)})
            raise PlanError(
                f"the store {store} has no {kind} {name!r}",
                hint=f"the newest it has: {', '.join(known[-8:])}"
                if known
                else "the store is empty: give another one with --store",
            )
        return records
    path = Path(text)
    if not path.is_dir():
        raise PlanError(
            f"{text!r} is neither a folder, nor node:NAME, nor run:ID",
            hint="give the folder of a store or of a node, node:NAME or run:ID; or use --by node",
        )
    records = tuple(read_records(path, warn=warn))
    if not records:
        raise RecordError(f"{path} holds no record", hint="give the folder of a store or of a node")
    return records
