"""Where code asks which trainer or which kind of parallelism it has, instead of asking that one."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator

from tests.contracts.tree import Source

KIND = re.compile(r"\b(?:zaya1|lora405b|ddp|mesh)\b")
# What a trainer or a strategy is known by; nobody looks into them to find out whose they are.
DECLARED = re.compile(r"\b(?:config|spec|strategy|trainer|run|settings)\b")
STARTS = ("startswith", "endswith", "removeprefix", "removesuffix")


def classes_in(rows: Iterable[Source]) -> set[str]:
    """The names of the classes that `rows` define."""
    return {node.name for source in rows for node in _classes(source)}


def _classes(source: Source) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef))


def branches(source: Source, kinds: Collection[str] = ()) -> list[str]:
    """The branches of a module on a kind of trainer; `kinds` are classes of which only one has it.

    Comparisons and patterns with a kind's name, also by a constant of the module; questions
    whether a config or a declaration has something or is of a class; instances of `kinds`.
    """
    named = {name for name, value in _constants(source.tree) if KIND.search(value)}
    return [
        f"{source.place}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Compare | ast.Call | ast.MatchValue | ast.MatchClass)
        and _is_branch(node, named, kinds)
    ]


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            yield from (
                (target.id, str(node.value.value))
                for target in node.targets
                if isinstance(target, ast.Name)
            )


def _is_branch(node: ast.expr | ast.pattern, named: set[str], kinds: Collection[str]) -> bool:
    match node:
        case ast.Compare() | ast.MatchValue():
            return _names_a_kind(node, named)
        case ast.Call(func=ast.Attribute(attr=attribute)) if attribute in STARTS:
            return any(_names_a_kind(argument, named) for argument in node.args)
        case ast.Call(func=ast.Name(id="hasattr"), args=[asked, *_]):
            return _is_declared(asked)
        case ast.Call(func=ast.Name(id="getattr"), args=[asked, _, _]):
            return _is_declared(asked)
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[asked, kind]):
            return _is_declared(asked) or _mentions(kind, kinds)
        case ast.MatchClass(cls=kind):
            return _mentions(kind, kinds)
    return False


def _names_a_kind(node: ast.AST, named: set[str]) -> bool:
    return any(
        (isinstance(part, ast.Constant) and isinstance(part.value, str) and KIND.search(part.value))
        or (isinstance(part, ast.Name) and part.id in named)
        for part in ast.walk(node)
    )


def _is_declared(asked: ast.expr) -> bool:
    """Whether the object asked is a config or a declaration, by the last name that it goes by."""
    match asked:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return DECLARED.fullmatch(name) is not None
        case ast.Call(func=function):
            return _is_declared(function)
    return False


def _mentions(node: ast.expr, kinds: Collection[str]) -> bool:
    return any(getattr(part, "id", getattr(part, "attr", None)) in kinds for part in ast.walk(node))
