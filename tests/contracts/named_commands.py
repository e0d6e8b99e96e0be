"""The ``mi300bench ...`` commands that sources and pages name, held against the real commands.

In prose a command ends with its clause, and words that are no option may follow it. In code nothing
may be left over and values have to be of their type; a block of a shell has to be complete. What is
in capitals, in angle brackets or in braces stands for any value.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import click
from mi300bench.cli.main import COMMANDS, cli
from mi300bench.errors import PlanError
from mi300bench.measurement import sweep_file
from mi300bench.trainers.registry import names, spec_of

PROGRAM = "mi300bench"
PLACEHOLDER = re.compile(r"[A-Z][A-Z_]+|<[^>]+>|\{[^}]*\}|\.\.\.")
# A clause ends at a comma, a stop, a bracket or a quotation mark of code.
CLAUSE = re.compile(r"[,;:.](?=\s|$)|[()`]|\s(?:and|or)\s|\n\n")
# "mi300bench query" names a command, "mi300bench has no key" does not.
NO_COMMANDS = {"has", "cannot", "version", "that", "on", "itself"}
IN_PROSE = re.compile(r"(?:(?<!import )(?<!from )\bmi300bench|\bor(?=\s+sweep\s))\s+(?=[a-z-])")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n?)+|\A(?: {4}.*\n?)+")
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
NO_SHELL = {"python", "toml", "json"}
OPERATORS = re.compile(r"[|&;<>()]+")
# What may stand before the program on a line: a prompt, a launcher, variables.
LAUNCHER = re.compile(r"[\w./$='\" -]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A command that a text names: its words after ``mi300bench``, and how exactly it is meant."""

    words: tuple[str, ...]
    is_code: bool = False
    is_complete: bool = False


def in_source(tree: ast.AST) -> Iterator[Named]:
    """The commands in the texts of a module: messages, hints, help, docstrings."""
    for text in _texts(tree):
        yield from in_prose(text)


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        yield "".join(
            part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def in_prose(text: str) -> Iterator[Named]:
    """The commands in a sentence."""
    for match in IN_PROSE.finditer(text):
        words = _words(_clause(text[match.end() :]))
        if words and words[0] not in NO_COMMANDS:
            yield Named(words=words)


def _clause(text: str) -> str:
    """The text up to where its clause ends; what is in double quotes is one value."""
    end = next(
        (m.start() for m in CLAUSE.finditer(text) if text[: m.start()].count('"') % 2 == 0), None
    )
    return text[:end]


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:  # an apostrophe
        return tuple(text.split())


def in_page(text: str) -> Iterator[Named]:
    """The commands in the code of a page: in its blocks, and inside a line."""
    for language, block in BLOCK.findall(text):
        yield from () if language in NO_SHELL else in_block(block)
    rest = BLOCK.sub("", text)
    for block in INDENTED.findall(rest):
        yield from in_block(block)
    for code in INLINE.findall(INDENTED.sub("", rest)):
        yield from in_line(code, is_complete=False)


def in_block(block: str) -> Iterator[Named]:
    """The commands in a block of a shell, and those that its output names."""
    for line in block.replace("\\\n", " ").splitlines():
        before, program, _ = line.partition(PROGRAM)
        is_typed = program and LAUNCHER.fullmatch(before)
        yield from in_line(line) if is_typed else in_prose(line)


def in_line(text: str, *, is_complete: bool = True) -> Iterator[Named]:
    """The commands in a line of a shell, after launchers and operators."""
    words: list[str] | None = None
    for token in [*_shell_words(re.sub(r"<[\w -]+>", "PLACEHOLDER", text)), ";"]:
        if OPERATORS.fullmatch(token):
            if words:
                yield Named(words=tuple(words), is_code=True, is_complete=is_complete)
            words = None
        elif words is not None:
            words.append(token)
        elif token.rpartition("/")[2] in (PROGRAM, f"{PROGRAM}.cli"):
            words = []


def _shell_words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>()")
    lexer.commenters, lexer.whitespace_split = "#", True
    try:
        return list(lexer)
    except ValueError:  # a quotation mark that is not closed
        return text.split()


def fault(named: Named) -> str:
    """Why the command cannot be as it is named; empty where it can."""
    root = click.Context(cli, info_name=PROGRAM)
    name, *rest = named.words
    if name.startswith("-"):
        return (
            "" if name in {o for p in cli.get_params(root) for o in p.opts} else f"no option {name}"
        )
    command = cli.get_command(root, name) if name in COMMANDS else None
    if command is None:
        return f"no command {name!r}"
    if isinstance(command, click.Group):
        if not rest:
            return ""
        nested, *rest = rest
        if nested not in command.commands:
            return f"{name} has no {nested!r}"
        command = command.commands[nested]
    context = click.Context(command, info_name=name, parent=root)
    try:
        given, left, _ = command.make_parser(context).parse_args(args=list(rest))
        if named.is_code:
            _require_values(command, context, given, left, is_complete=named.is_complete)
    except (click.UsageError, PlanError) as cause:
        return str(cause)
    return ""


def _require_values(
    command: click.Command,
    context: click.Context,
    given: dict[str, object],
    left: list[str],
    *,
    is_complete: bool,
) -> None:
    if left:
        raise click.UsageError(f"{' '.join(left)} is left over")
    for parameter in command.params:
        value = given.get(str(parameter.name))
        values = [
            v for v in (value if isinstance(value, list | tuple) else [value]) if isinstance(v, str)
        ]
        if is_complete and parameter.required and not values:
            raise click.UsageError(f"{parameter.name} is missing")
        for each in values:
            if not PLACEHOLDER.search(each):
                parameter.type.convert(each, parameter, context)
                _require_known(command, str(parameter.name), each)


def _require_known(command: click.Command, parameter: str, value: str) -> None:
    """Raise where a trainer or a sweep of that name does not exist."""
    if parameter == "trainer" and value not in names():
        spec_of(value)
    is_sweep = (command.name, parameter) in {("run", "name"), ("plan", "name")}
    if is_sweep and not value.endswith(".toml"):
        sweep_file.find(value)
