"""The sources as syntax trees: which modules there are, and which imports which."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Each folder of sources, and what its modules' names count from.
FOLDERS = {"mi300bench": ROOT, "reports": ROOT / "reports", "training": ROOT / "training"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A module: its dotted name, whether it is a package, where it is, and its tree."""

    module: str
    is_package: bool
    place: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """The package that the module is in; of a package itself."""
        return self.module if self.is_package else self.module.rpartition(".")[0]


def parsed(text: str, module: str, *, is_package: bool = False, place: str = "") -> Source:
    """The source of a module that stands in `text`."""
    return Source(module=module, is_package=is_package, place=place or module, tree=ast.parse(text))


@cache
def sources() -> tuple[Source, ...]:
    """Every module of the library, the reports and the trainers."""
    rows = []
    for folder, start in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(start).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            module = ".".join(parts[:-1] if is_package else parts)
            place = str(path.relative_to(ROOT))
            rows.append(parsed(path.read_text(), module, is_package=is_package, place=place))
    return tuple(rows)


def graph_of(rows: Iterable[Source]) -> dict[str, set[str]]:
    """The modules that each module imports, in functions too; of those in `rows` alone."""
    every = tuple(rows)
    known = {source.module for source in every}
    return {source.module: set(_imported(source, known)) - {source.module} for source in every}


def imports(node: ast.AST, *, is_deep: bool = True) -> Iterator[str]:
    """The modules that a statement names to import; `is_deep`: inside it too."""
    for part in ast.walk(node) if is_deep else [node]:
        if isinstance(part, ast.Import):
            yield from (alias.name for alias in part.names)
        elif isinstance(part, ast.ImportFrom):
            yield part.module or ""


def _imported(source: Source, known: set[str]) -> Iterator[str]:
    for node in _run(source.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base(source, node)
            names = [
                whole if (whole := f"{base}.{alias.name}") in known else base
                for alias in node.names
            ]
        else:
            continue
        yield from (name for name in names if name in known)


def _base(source: Source, node: ast.ImportFrom) -> str:
    """The module that ``from ... import`` names, dots resolved."""
    if not node.level:
        return node.module or ""
    above = source.package.split(".")
    kept = above[: len(above) - node.level + 1]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below `node` that a program runs: not what stands under ``if TYPE_CHECKING``."""
    yield node
    is_for_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    for child in node.orelse if is_for_types else ast.iter_child_nodes(node):
        yield from _run(child)


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that import each other, directly or by others."""
    reached = {module: _reachable(graph, module) for module in graph}
    groups = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in graph
        if module in reached[module]
    }
    return sorted(map(list, groups))


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += graph[module]
    return seen
