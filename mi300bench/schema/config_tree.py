"""A trainer's config, a frozen tree one level deep, from plain tables and with keys changed. The trees are the trainers' own.

Values come from people and files: each is held against its field's type before anything is computed with it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from mi300bench.errors import PlanError

WORDS = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false"}


def require_at_least(part: Any, least: float, *names: str) -> None:
    """Raise where one of the named fields of `part` is under `least`."""
    for name in names:
        if getattr(part, name) < least:
            raise PlanError(
                f"{name}={getattr(part, name)!r} makes no sense",
                hint=f"{name} of at least {least:g}",
            )


def require_seed(seed: int) -> None:
    """Raise where `seed` is none to every generator of random numbers that is used."""
    if not 0 <= seed < 2**31:
        raise PlanError(f"seed={seed} seeds nothing", hint="a seed from 0 to 2147483647")


def to_tables(config: Any) -> dict[str, Any]:
    """Return a config as nested plain tables, with lists where it has tuples, as TOML reads them."""
    tables: dict[str, Any] = _plain(asdict(config))
    return tables


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def build(kind: type[Any], parts: Mapping[str, type[Any]], tables: Mapping[str, Any]) -> Any:
    """Return the config of complete tables; `PlanError` names what is missing or unknown."""
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
            f"{where} is {table!r}, not a table", hint="write the config anew with: mi300bench tune"
        )
    known = {f.name for f in fields(kind)}
    unknown = sorted(set(table) - known)
    if unknown:
        raise PlanError(
            f"{where} has the unknown key {unknown[0]!r}", hint=f"known: {', '.join(sorted(known))}"
        )
    _require_types(kind, table, "" if where == "config" else f"{where}.")
    try:
        return kind(**table)
    except TypeError as cause:
        raise PlanError(
            f"{where}: {cause}",
            hint="the config must be complete: write it anew with mi300bench tune",
        ) from cause


def override(
    trainer: str, config: Any, parts: Mapping[str, type[Any]], values: Mapping[str, Any]
) -> Any:
    """Return `config` with all `values` by dotted key set at once: parts are checked only as they will be."""
    top: dict[str, Any] = {}
    changed: dict[str, dict[str, Any]] = {}
    for dotted, value in values.items():
        part, _, name = dotted.rpartition(".")
        known = {f.name for f in fields(parts.get(part, type(config)))}
        if (part and part not in parts) or name not in known or name in parts:
            raise PlanError(
                f"{trainer} has no key {dotted!r}",
                hint=f"parts: {', '.join(parts)}; see mi300bench explain tuned.toml",
            )
        _require_types(parts.get(part, type(config)), {name: value}, f"{part}." if part else "")
        (changed.setdefault(part, {}) if part else top)[name] = value
    return replace(
        config,
        **top,
        **{part: replace(getattr(config, part), **named) for part, named in changed.items()},
    )


def _require_types(kind: type[Any], values: Mapping[str, Any], prefix: str) -> None:
    """Raise where a value is not of its field's type; a whole number will do for a number."""
    types = get_type_hints(kind)
    for name, value in values.items():
        if not _is_of(value, types[name]):
            raise PlanError(
                f"{prefix}{name}={value!r} is not {_words(types[name])}",
                hint=f"--set {prefix}{name}=VALUE, or mend the file",
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
