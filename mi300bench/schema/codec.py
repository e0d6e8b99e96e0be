"""Records to JSON objects and back, and the upgrade of old schemas, one step at a time."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

from mi300bench.errors import RecordError
from mi300bench.schema.conditions import ENVIRONMENT_PREFIXES
from mi300bench.schema.doubt import KINDS, Doubt, OtherDoubt
from mi300bench.schema.record import SCHEMA, Measurement, Origin, Outcome, Work, World
from mi300bench.units import Unit

Document = dict[str, Any]
# A variable in the text of schema 1: a name with a known prefix, at the start or after a space.
_VARIABLE = re.compile(rf"(?:^| )((?:{'|'.join(ENVIRONMENT_PREFIXES)})\w*)=")


def _variables_of(text: str) -> dict[str, str]:
    """Return the variables that schema 1 joined with spaces.

    A value may contain spaces: it ends where the next known name begins.
    """
    names = list(_VARIABLE.finditer(text))
    ends = [match.start() for match in names[1:]] + [len(text)] * bool(names)
    return {match.group(1): text[match.end() : end] for match, end in zip(names, ends, strict=True)}


def _from_schema_1(document: Document) -> Document:
    """Move the environment variables to `variables`; schema 1 kept them as text in a condition."""
    conditions = dict(document.get("conditions", {}))
    text = str(conditions.pop("environment", ""))
    return document | {"conditions": conditions, "variables": _variables_of(text), "schema": 2}


# UPGRADES[n] turns an object of schema n into one of schema n + 1.
UPGRADES: dict[int, Callable[[Document], Document]] = {1: _from_schema_1}


def encode_doubt(doubt: Doubt) -> Document:
    """Return a JSON object with the kind, the figures and the sentence of a doubt."""
    return {"kind": doubt.kind, **asdict(doubt), "says": str(doubt)}


def decode_doubt(document: Mapping[str, Any]) -> Doubt:
    """Return the doubt of a JSON object; a doubt of an unknown kind keeps its sentence."""
    figures = {name: value for name, value in document.items() if name not in ("kind", "says")}
    known = KINDS.get(document.get("kind", ""))
    if known is not None and {f.name for f in fields(known)} == set(figures):
        return known(**figures)
    return OtherDoubt(text=str(document.get("says", document)))


def _json_number(value: float | int | str) -> float | int | str:
    """Return a reading for JSON, which has no infinity and no NaN: these become strings."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def encode(record: Measurement) -> Document:
    """Return `record` as a JSON object whose keys are the field names of the record."""
    document = {f.name: getattr(record, f.name) for f in fields(record)}
    document |= {
        "params": dict(record.params),
        "environment": dict(record.environment),
        "variables": dict(record.variables),
        "conditions": dict(record.conditions),
        "series": {
            name: [_json_number(value) for value in values]
            for name, values in record.series.items()
        },
        "work": asdict(record.work),
        "world": asdict(record.world),
        "doubts": [encode_doubt(doubt) for doubt in record.doubts],
    }
    return document


def upgrade(
    document: Document, *, steps: Mapping[int, Callable[[Document], Document]], to: int
) -> Document:
    """Return `document` upgraded to schema `to` by `steps`; raise `RecordError` if it is newer."""
    version = document.get("schema", 1)
    if not isinstance(version, int) or not 1 <= version <= to:
        raise RecordError(
            f"the record has schema {version!r}, but this version reads schemas 1 to {to}",
            hint="use the version of mi300bench that wrote it, or a newer one",
        )
    while version < to:
        document = steps[version](document)
        version += 1
    return document


def decode(document: Document) -> Measurement:
    """Return the record of a JSON object, upgraded if its schema is old."""
    document = upgrade(document, steps=UPGRADES, to=SCHEMA)
    try:
        known = {f.name for f in fields(Measurement)}
        values = {name: value for name, value in document.items() if name in known}
        values |= {
            "outcome": Outcome(document["outcome"]),
            "origin": Origin(document.get("origin", "measured")),
            "unit": Unit(document.get("unit", "s")),
            "work": Work(**document.get("work", {})),
            "world": World(**document.get("world", {})),
            "samples": tuple(document.get("samples", ())),
            "warmup": tuple(document.get("warmup", ())),
            "rank_samples": tuple(tuple(rank) for rank in document.get("rank_samples", ())),
            "series": {
                name: tuple(readings) for name, readings in document.get("series", {}).items()
            },
            "doubts": tuple(decode_doubt(doubt) for doubt in document.get("doubts", ())),
        }
        return Measurement(**values)
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise RecordError(
            f"not a record: {type(cause).__name__}: {cause}",
            hint="restore the file, or move it out of the store",
        ) from cause
