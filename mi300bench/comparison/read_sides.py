"""What a side of a comparison stands for: ``node:NAME``, ``run:ID``, the folder of a store or of a node in one."""

from collections.abc import Callable
from pathlib import Path

from mi300bench.comparison.sides import ATTRIBUTES
from mi300bench.errors import PlanError, RecordError
from mi300bench.schema.record import Measurement
from mi300bench.store.reader import read_records

NODE, RUN = "node:", "run:"


def records_of_side(text: str, store: Path, warn: Callable[[str], None]) -> tuple[Measurement, ...]:
    """Return the records that ``node:NAME``, ``run:ID`` or a folder stand for."""
    if text.startswith((NODE, RUN)):
        kind, _, name = text.partition(":")
        attribute = ATTRIBUTES[kind]
        records = tuple(r for r in read_records(store, warn=warn) if attribute(r) == name)
        if not records:
            known = sorted({attribute(r) for r in read_records(store, warn=warn)})
            raise PlanError(
                f"the store {store} has no {kind} {name!r}",
                hint=f"one of {', '.join(known[-8:]) or 'none'}",
            )
        return records
    path = Path(text)
    if not path.is_dir():
        raise PlanError(
            f"{text!r} is no side",
            hint="a store's or a node's folder, node:NAME or run:ID; or --by node",
        )
    records = tuple(read_records(path, warn=warn))
    if not records:
        raise RecordError(f"{path} holds no record", hint="another folder")
    return records
