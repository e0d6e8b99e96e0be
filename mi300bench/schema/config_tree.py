"""Reads, writes and changes a trainer's config: a frozen dataclass with one level of parts.

Values come from people and from files, so the type of each is checked before its use.
"""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, fields, is_dataclass, replace
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from mi300bench.errors import PlanError

WORDS = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false"}


def require_at_least(part: Any, least: float, *names: str) -> None:
    """Raise `PlanError` if one of the named fields of `part` is less than `least`."""
    for name in names:
        if getattr(part, name) < least:
            raise PlanError(
                f"{name} must be at least {least:g} (got {getattr(part, name)!r})",
                hint=f"set {name} to {least:g} or more",
            )


def require_seed(seed: int) -> None:
    """Raise `PlanError` for a seed that some random number generator does not accept."""
    if not 0 <= seed < 2**31:
        raise PlanError(
            f"seed must be from 0 to {2**31 - 1} (got {seed})", hint="set seed to 1, for example"
        )


def require_one_of(name: str, value: str, known: Sequence[str]) -> None:
    """Raise `PlanError` if `value` is not one of `known`."""
    if value not in known:
        raise PlanError(
            f"{name} must be one of {', '.join(known)} (got {value!r})",
            hint=f"set {name} to {known[0]}, for example",
        )


def to_tables(config: Any) -> dict[str, Any]:
    """Return a config as nested plain tables, with lists instead of tuples, as TOML has them."""
    tables: dict[str, Any] = _plain(asdict(config))
    return tables


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def build(kind: type[Any], parts: Mapping[str, type[Any]], tables: Mapping[str, Any]) -> Any:
    """Return the config of complete tables; `PlanError` names a missing or unknown key."""
    built = {
        name: _build(parts[name], value, name) if name in parts else value
        for name, value in tables.items()
    }
    return _build(kind, built, "config")


def _build(kind: type[Any], table: Any, where: str) -> Any:
    if is_dataclass(table):
        return table
    if not isinstance(table, Mapping):
        raise PlanError(
            f"{where} must be a table (got {table!r})",
            hint="write the config again with: mi300bench tune",
        )
    known = {f.name for f in fields(kind)}
    unknown = sorted(set(table) - known)
    if unknown:
        raise PlanError(
            f"{where} has the unknown key {unknown[0]!r}",
            hint=f"remove it; known keys are {', '.join(sorted(known))}",
        )
    _require_types(kind, table, "" if where == "config" else f"{where}.")
    try:
        return kind(**table)
    except TypeError as cause:
        raise PlanError(
            f"{where} is not complete: {cause}",
            hint="write the config again with: mi300bench tune",
        ) from cause


def override(
    trainer: str, config: Any, parts: Mapping[str, type[Any]], values: Mapping[str, Any]
) -> Any:
    """Return `config` with all `values` set at once, by dotted key; only the result is checked."""
    top: dict[str, Any] = {}
    changed: dict[str, dict[str, Any]] = {}
    for dotted, value in values.items():
        part, _, name = dotted.rpartition(".")
        known = {f.name for f in fields(parts.get(part, type(config)))}
        if (part and part not in parts) or name not in known or name in parts:
            raise PlanError(
                f"{trainer} has no key {dotted!r}",
                hint=_known_keys(part, known, parts),
            )
        _require_types(parts.get(part, type(config)), {name: value}, f"{part}." if part else "")
        (changed.setdefault(part, {}) if part else top)[name] = value
    return replace(
        config,
        **top,
        **{part: replace(getattr(config, part), **named) for part, named in changed.items()},
    )


def _known_keys(part: str, known: AbstractSet[str], parts: Mapping[str, type[Any]]) -> str:
    """Return the hint that lists the keys of a part, or those of the config and its parts."""
    if part in parts:
        return f"{part} has the keys {', '.join(sorted(known))}"
    return f"keys are {', '.join(sorted(known - set(parts)))}; parts are {', '.join(parts)}"


def _require_types(kind: type[Any], values: Mapping[str, Any], prefix: str) -> None:
    """Raise `PlanError` if a value is not of its field's type; a whole number is also a number."""
    types = get_type_hints(kind)
    for name, value in values.items():
        if not _is_of(value, types[name]):
            raise PlanError(
                f"{prefix}{name} must be {_words(types[name])} (got {value!r})",
                hint=f"give --set {prefix}{name}=VALUE, or correct the file",
            )


def _is_of(value: Any, kind: Any) -> bool:
    origin = get_origin(kind)
    if origin is UnionType:
        return any(_is_of(value, each) for each in get_args(kind))
    if origin in (tuple, list):
        return (
            isinstance(value, Sequence)
            and not isinstance(value, str)
            and all(_is_of(each, get_args(kind)[0]) for each in value)
        )
    if kind in (int, float) and isinstance(value, bool):
        return False
    if kind is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, kind)


def _words(kind: Any) -> str:
    if get_origin(kind) is UnionType:
        return " or ".join(_words(each) for each in get_args(kind))
    return WORDS.get(kind, "a list")
