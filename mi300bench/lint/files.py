"""Claim files: a list of claims with their sources, in TOML. Three ship; users write their own.

source = "a blog, 2024-10"
[[claims]]
id = "speed"
kind = "throughput"
subject = "35 tokens a second"
figures = { tokens_per_second = 35, step_seconds = 30, batch = 16, seq_len = 64 }
"""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from mi300bench.errors import PlanError, RecordError
from mi300bench.lint.claim import Claim, Figure

SHIPPED = ("lora405b", "zaya1", "agoq")


def shipped() -> tuple[Claim, ...]:
    """Return the claims of the three published accounts that the trainers implement."""
    folder = files("mi300bench.lint") / "claims"
    return tuple(
        claim
        for name in SHIPPED
        for claim in parse((folder / f"{name}.toml").read_text(), name=f"{name}.toml")
    )


def read(path: Path) -> tuple[Claim, ...]:
    """Return the claims of a file."""
    try:
        return parse(path.read_text(encoding="utf-8"), name=str(path))
    except FileNotFoundError as cause:
        raise PlanError(
            f"{path} does not exist",
            hint="give seeds, a store, a run, a claim file or a tuned config",
        ) from cause
    except (OSError, UnicodeDecodeError) as cause:
        raise RecordError(
            f"{path} cannot be read: {cause}", hint="give a text file in TOML"
        ) from cause


def parse(text: str, *, name: str) -> tuple[Claim, ...]:
    """Return the claims of a document; `RecordError` names the part that is wrong."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise RecordError(
            f"{name} is not valid TOML: {cause}", hint="see docs/method/lint.md"
        ) from cause
    rows = document.get("claims")
    if not isinstance(rows, list) or not rows:
        raise RecordError(f"{name} has no [[claims]]", hint="see docs/method/lint.md")
    claims = tuple(_claim(row, place, document, name) for place, row in enumerate(rows, 1))
    seen: set[str] = set()
    for claim in claims:
        if claim.id in seen:
            raise RecordError(
                f"{name}: two claims have the id {claim.id!r}", hint="give each its own id"
            )
        seen.add(claim.id)
    return claims


def _claim(row: Any, place: int, document: Mapping[str, Any], name: str) -> Claim:
    if not isinstance(row, dict) or not isinstance(row.get("kind"), str):
        raise RecordError(
            f"{name}: claim {place} has no kind",
            hint='add one, such as kind = "throughput"; see docs/method/lint.md',
        )
    unknown = sorted(set(row) - {"id", "kind", "subject", "figures", "source"})
    if unknown:
        raise RecordError(
            f"{name}: claim {place} has the unknown key {unknown[0]!r}",
            hint="known: id, kind, subject, figures, source; figures go into figures = { ... }",
        )
    figures = row.get("figures", {})
    if not isinstance(figures, dict):
        raise RecordError(
            f"{name}: the figures of claim {place} are not a table",
            hint="write figures = { seconds = 1.5 }",
        )
    return Claim(
        id=str(row.get("id", f"{name}:{place}")),
        kind=row["kind"],
        subject=str(row.get("subject", "")),
        figures={str(key): _figure(value, key, place, name) for key, value in figures.items()},
        source=str(row.get("source", document.get("source", name))),
        origin=str(document.get("origin", "published")),
    )


def _figure(value: Any, key: str, place: int, name: str) -> Figure:
    if isinstance(value, bool) or not isinstance(value, int | float | str | list):
        raise RecordError(
            f"{name}: {key} of claim {place} is {value!r}, which cannot be a figure",
            hint="give a number, a text, or a list of them",
        )
    if isinstance(value, list):
        return tuple(_figure(each, key, place, name) for each in value)  # type: ignore[misc]
    return value if isinstance(value, str) else float(value)
