"""The house rules that a machine can check."""

import ast
import subprocess
import sys
from pathlib import Path

import mi300bench
from mi300bench.probes.catalog import every_probe
from mi300bench.schema.doubt import KINDS

from tests.conftest import MARKED

ROOT = Path(__file__).parents[2]
SOURCES = [
    p
    for folder in ("mi300bench", "reports", "training")
    for p in sorted((ROOT / folder).rglob("*.py"))
]


def test_every_module_says_what_it_is() -> None:
    assert [str(p) for p in SOURCES if ast.get_docstring(ast.parse(p.read_text())) is None] == []


def test_no_module_is_named_for_nothing() -> None:
    assert [
        p.name for p in SOURCES if p.stem in ("utils", "helpers", "common", "misc", "manager")
    ] == []


def test_import_contracts_hold() -> None:
    answer = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout


def test_every_public_name_is_documented() -> None:
    page = (ROOT / "docs/reference/python.md").read_text()
    assert [name for name in mi300bench.__all__ if f"`{name}`" not in page] == []


def test_every_probe_family_has_a_method_page() -> None:
    pages = {path.stem for path in (ROOT / "docs/method").glob("*.md")}
    families = {name.split(".")[0] for name in every_probe()}
    assert families <= pages


def test_the_command_line_reference_is_what_the_commands_say() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.contracts.cli_reference"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ROOT / "docs/reference/cli.md").read_text() == answer.stdout, "make docs"


def test_doubts_have_names_of_their_own() -> None:
    assert len(KINDS) >= 15 and all(kind == doubt.kind for kind, doubt in KINDS.items())


def test_make_test_runs_every_test_once() -> None:
    """What measures runs alone, the rest together: both selections are one marker, so no test is in neither."""
    text = (ROOT / "Makefile").read_text()
    assert '-m "not alone" tests' in text and "-m alone tests" in text
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    assert set(MARKED) <= folders
