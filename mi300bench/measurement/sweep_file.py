"""Sweeps as TOML: a question, and probes with axes, whose product is counted before it runs."""

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.measurement import plans
from mi300bench.measurement.local_topology import local_topology
from mi300bench.probes.catalog import entry
from mi300bench.schema.plan import Plan, Point, Stop
from mi300bench.schema.record import Scalar
from mi300bench.units import dtype_name, parse_size

DEFAULT_MOST_POINTS = 512
# Parameters in bytes, which may be written with a unit.
SIZES = ("bytes", "row_bytes")


def sweep_folders() -> list[Path]:
    """Return the folders with sweeps: ./sweeps, then those of the package."""
    packaged = Path(str(files("mi300bench"))) / "sweeps"
    beside = Path(str(files("mi300bench"))).parent / "sweeps"
    return [folder for folder in (Path("sweeps"), packaged, beside) if folder.is_dir()]


def available() -> dict[str, Path]:
    """Return the sweeps by name; one in ./sweeps replaces one of the package."""
    by_name: dict[str, Path] = {}
    for folder in sweep_folders():
        for path in sorted(folder.glob("*.toml")):
            by_name.setdefault(path.stem, path)
    return by_name


def find(name: str) -> Path:
    """Return the path of a sweep that is given by name or by path."""
    known = available()
    if name in known:
        return known[name]
    path = Path(name)
    if path.is_file():
        return path
    raise PlanError(
        f"there is no sweep {name!r}",
        hint=f"give one of {', '.join(known) or 'none'}, or the path of a file",
    )


def read(path: Path, *, device: str, default_ranks: int, passes: int) -> Plan:
    """Return the plan of a sweep file; `PlanError` names the part that is wrong."""
    try:
        document = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise PlanError(
            f"{path} cannot be read: {cause}", hint="see sweeps/hbm.toml for an example"
        ) from cause
    head = _table(document.get("sweep", {}), path, "[sweep]")
    if not head.get("question"):
        raise PlanError(f"{path} has no question", hint='write [sweep] question = "What does ...?"')
    most = _count(head.get("max_points", DEFAULT_MOST_POINTS), path, "max_points")
    stated_passes = _count(head.get("passes", passes), path, "passes")
    points: list[Point] = []
    for table in document.get("probe", []):
        points += _points(
            _table(table, path, "[[probe]]"), path, device=device, default_ranks=default_ranks
        )
    return plans.plan(str(head["question"]), points, passes=stated_passes, most=most)


def _table(value: Any, path: Path, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PlanError(
            f"{path}: {where} is {value!r}, not a table",
            hint="see sweeps/hbm.toml for an example",
        )
    return value


def _count(value: Any, path: Path, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PlanError(
            f"{path}: {name} is {value!r}, not a positive whole number",
            hint=f"write {name} = 3",
        )
    return value


def question(path: Path) -> str:
    """Return the question of a sweep file, or the reason why it cannot be read."""
    try:
        head = tomllib.loads(path.read_text()).get("sweep")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        return f"cannot be read: {cause}"
    return str(head.get("question", "")) if isinstance(head, Mapping) else "has no question"


def _points(
    table: Mapping[str, Any], path: Path, *, device: str, default_ranks: int
) -> list[Point]:
    unknown = sorted(set(table) - {"name", "axes", "params", "env", "stop", "ranks"})
    if unknown or "name" not in table:
        wrong = f"the unknown key {unknown[0]!r}" if unknown else "no name"
        raise PlanError(
            f"{path}: a [[probe]] has {wrong}",
            hint="known: name, axes, params, env, stop, ranks",
        )
    try:
        stop = Stop(**_table(table.get("stop", {}), path, "stop"))
    except TypeError as cause:
        raise PlanError(
            f"{path}: stop: {cause}",
            hint="known: relative_ci, min_samples, max_seconds, warmup_seconds",
        ) from cause
    axes = {
        name: _axis(name, value)
        for name, value in _table(table.get("axes", {}), path, "axes").items()
    }
    fixed = {
        name: _value(name, value)
        for name, value in _table(table.get("params", {}), path, "params").items()
    }
    ranks = table.get("ranks", default_ranks if entry(table["name"]).ranks > 1 else 1)
    counts = [
        _count(count, path, "ranks") for count in (ranks if isinstance(ranks, list) else [ranks])
    ]
    worlds = [local_topology(device, count) for count in counts]
    return [
        plans.point(
            table["name"],
            fixed | dict(zip(axes, values, strict=True)),
            one_world,
            stop=stop,
            environment={
                key: str(value) for key, value in _table(table.get("env", {}), path, "env").items()
            },
        )
        for one_world in worlds
        for values in itertools.product(*axes.values())
    ]


def _axis(name: str, value: Any) -> Sequence[Scalar]:
    """Return the values of an axis: a list, or ``{ from, to, times }``."""
    if isinstance(value, Mapping):
        return _range(name, value)
    return [_value(name, each) for each in (value if isinstance(value, list) else [value])]


def _range(name: str, value: Mapping[str, Any]) -> list[Scalar]:
    """Return the values from ``from`` to ``to``, each ``times`` the one before."""
    try:
        low, high, times = _value(name, value["from"]), _value(name, value["to"]), value["times"]
    except KeyError as cause:
        raise PlanError(
            f"the axis {name} has no {cause}", hint="write { from = .., to = .., times = .. }"
        ) from cause
    numbers = [number for number in (low, high, times) if isinstance(number, int)]
    if len(numbers) < 3 or numbers[0] < 1 or numbers[2] < 2:
        raise PlanError(
            f"the axis {name} is {dict(value)!r}: from and to must be positive whole numbers, "
            "times a whole number over 1",
            hint="write { from = 1024, to = 4096, times = 2 }",
        )
    first, last, factor = numbers
    values: list[Scalar] = [first]
    while (first := first * factor) <= last:
        values.append(first)
    return values


def _value(name: str, value: Any) -> Scalar:
    if name in SIZES and isinstance(value, str):
        return parse_size(value)
    if name == "dtype":
        return dtype_name(str(value))
    if value is not None and not isinstance(value, str | int | float | bool):
        raise PlanError(
            f"{name} = {value!r} is not a single value",
            hint="give a number, a text, true or false; several values are an axis",
        )
    return value
