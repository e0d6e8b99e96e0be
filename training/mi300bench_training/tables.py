"""A trainer's config, a frozen tree one level deep, from plain tables and with keys changed. The trees are the trainers' own."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from mi300bench.errors import PlanError


def build(kind: type[Any], parts: Mapping[str, type[Any]], tables: Mapping[str, Any]) -> Any:
    """Return the config of complete tables; `PlanError` names what is missing or unknown."""
    built = {name: _build(parts[name], value, name) if name in parts else value for name, value in tables.items()}
    return _build(kind, built, "config")


def _build(kind: type[Any], table: Any, where: str) -> Any:
    if is_dataclass(table):
        return table
    if not isinstance(table, Mapping):
        raise PlanError(f"{where} is {table!r}, not a table", hint="write the config anew with: mi300bench tune")
    known = {f.name for f in fields(kind)}
    unknown = sorted(set(table) - known)
    if unknown:
        raise PlanError(f"{where} has the unknown key {unknown[0]!r}", hint=f"known: {', '.join(sorted(known))}")
    try:
        return kind(**table)
    except TypeError as cause:
        raise PlanError(f"{where}: {cause}", hint="the config must be complete: write it anew with mi300bench tune") from cause


def override_all(trainer: str, config: Any, parts: Mapping[str, type[Any]], values: Mapping[str, Any]) -> Any:
    """Return `config` with all `values` by dotted key set at once: parts are checked only as they will be."""
    top: dict[str, Any] = {}
    changed: dict[str, dict[str, Any]] = {}
    for dotted, value in values.items():
        part, _, name = dotted.rpartition(".")
        known = {f.name for f in fields(parts.get(part, type(config)))}
        if (part and part not in parts) or name not in known or name in parts:
            raise PlanError(
                f"{trainer} has no key {dotted!r}", hint=f"parts: {', '.join(parts)}; see mi300bench explain tuned.toml"
            )
        (changed.setdefault(part, {}) if part else top)[name] = value
    return replace(config, **top, **{part: replace(getattr(config, part), **named) for part, named in changed.items()})
