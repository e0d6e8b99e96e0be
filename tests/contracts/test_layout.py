"""The house rules that a machine can check."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import mi300bench
import pytest
from mi300bench.probes.catalog import every_probe
from mi300bench.schema.doubt import KINDS
from tests.conftest import MARKED
from tests.contracts.branches import branches, classes_in
from tests.contracts.links import dead_links, links
from tests.contracts.named_commands import fault, in_page, in_prose, in_source
from tests.contracts.tree import ROOT, cycles, graph_of, imports, parsed, sources

MOST_MODULES = 14
# Strategies and trainers have kinds; everything else asks the declaration or the strategy.
KINDS_OF = ("mi300bench.strategies.ddp", "mi300bench.strategies.mesh", "mi300bench_training")
HAS_KINDS = ("mi300bench.strategies", "mi300bench_training")
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def test_every_module_says_what_it_is() -> None:
    assert [each.place for each in sources() if ast.get_docstring(each.tree) is None] == []


def test_no_module_is_named_for_nothing() -> None:
    nothing = {"utils", "helpers", "common", "misc", "manager"}
    assert [s.place for s in sources() if s.module.rpartition(".")[2] in nothing] == []


def test_no_class_name_is_defined_twice() -> None:
    places: dict[str, list[str]] = {}
    for source in sources():
        for name in classes_in([source]):
            places.setdefault(name, []).append(source.place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_package_has_few_modules() -> None:
    """More are two packages. ``__init__`` and ``__main__`` say only what is in it."""
    counts = Counter(
        source.package
        for source in sources()
        if not source.is_package and not source.module.endswith("__main__")
    )
    assert len(counts) > 20
    assert {name: count for name, count in counts.items() if count > MOST_MODULES} == {}


def test_no_modules_import_each_other() -> None:
    graph = graph_of(sources())
    assert sum(map(len, graph.values())) > 500
    assert cycles(graph) == []


def test_a_cycle_is_seen_in_functions_too_and_not_in_what_only_types_need() -> None:
    a = "def late():\n    from p import b"
    b = "import p.c"
    c = "if TYPE_CHECKING:\n    import p.b\nelse:\n    from . import a"
    rows = [parsed(text, name) for name, text in (("p.a", a), ("p.b", b), ("p.c", c))]
    assert cycles(graph_of(rows)) == [["p.a", "p.b", "p.c"]]
    assert cycles(graph_of([*rows[:2], parsed(c.partition("else")[0], "p.c")])) == []


def test_only_strategies_and_trainers_know_the_kinds_of_trainers() -> None:
    kinds = classes_in(s for s in sources() if s.module.startswith(KINDS_OF))
    outside = [s for s in sources() if not s.module.startswith(HAS_KINDS)]
    assert [found for source in outside for found in branches(source, kinds)] == []


@pytest.mark.parametrize(
    "code",
    [
        'if trainer == "zaya1": pass',
        'x = "lora405b.step" != probe',
        'if spec.strategy in ("ddp", "mesh"): pass',
        'KIND = "mesh"\nif knob == KIND: pass',
        'if probe.startswith("zaya1."): pass',
        'match name:\n    case "ddp": pass',
        'if hasattr(tuned.config, "x"): pass',
        'y = getattr(spec, "x", None)',
        "if isinstance(job.config, Thing): pass",
        "if isinstance(x, (int, p.ZayaConfig)): pass",
    ],
)
def test_a_branch_on_a_kind_of_trainer_is_seen(code: str) -> None:
    assert len(branches(parsed(code, "m"), {"ZayaConfig"})) == 1


def test_queries_alone_need_duckdb_and_pandas() -> None:
    """One module answers SQL, imports them in a function, and is asked by one command."""
    heavy = {"duckdb", "pandas"}
    import_them = {source.module for source in sources() if heavy & set(imports(source.tree))}
    assert import_them == {"mi300bench.store.query"}
    (source,) = [source for source in sources() if source.module in import_them]
    assert not heavy & {name for node in source.tree.body for name in imports(node, is_deep=False)}
    graph = graph_of(sources())
    users = {module for module, imported in graph.items() if source.module in imported}
    assert {m for m in users if not m.startswith("mi300bench.api.")} <= {
        "mi300bench.cli.records.query"
    }


def test_every_command_that_a_message_names_exists_with_its_options() -> None:
    named = [(source.place, each) for source in sources() for each in in_source(source.tree)]
    assert len(named) > 50
    assert [
        f"{place}: mi300bench {' '.join(each.words)}: {reason}"
        for place, each in named
        if (reason := fault(each))
    ] == []


def test_every_command_that_a_page_names_can_be_typed() -> None:
    named = [
        (str(page.relative_to(ROOT)), each) for page in PAGES for each in in_page(page.read_text())
    ]
    assert len(named) > 20
    assert [
        f"{page}: mi300bench {' '.join(each.words)}: {reason}"
        for page, each in named
        if (reason := fault(each))
    ] == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("measure it: mi300bench dance", "dance"),
        ("Try mi300bench hbm --dance, or nothing", "--dance"),
        ("mi300bench autotune zaya1, or sweep dance X", "dance"),
        ("mi300bench query has --dance 3", "--dance"),
    ],
)
def test_a_message_with_a_command_that_does_not_exist_is_seen(text: str, named: str) -> None:
    (found,) = [reason for each in in_prose(text) if (reason := fault(each))]
    assert named in found


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("`mi300bench hbm --dance`", "--dance"),
        ("```sh\n$ mi300bench hbm --passes many\n```", "many"),
        ("```\nNAME=1 srun -n 2 .venv/bin/mi300bench dance\n```", "dance"),
        ("    mi300bench autotune\n", "trainer"),
        ("    mi300bench autotune zaya9 | tee log\n", "zaya9"),
        ("`torchrun ... -m mi300bench sweep run nowhere`", "nowhere"),
        ("`mi300bench hbm 5`", "5"),
        ("`mi300bench export tuned.toml --to`", "--to"),
    ],
)
def test_a_page_with_a_command_that_cannot_be_typed_is_seen(text: str, named: str) -> None:
    (found,) = [reason for each in in_page(text) if (reason := fault(each))]
    assert named in found


def test_placeholders_stand_for_any_value() -> None:
    page = "`mi300bench scaling TRAINER --batch N` and `mi300bench train <trainer> --steps {steps}`"
    assert [fault(each) for each in in_page(page.replace("N`", "COUNT`"))] == ["", ""]


def test_every_link_leads_somewhere() -> None:
    assert sum(len(list(links(page.read_text()))) for page in PAGES) > 20
    assert {str(page): dead for page in PAGES if (dead := dead_links(page))} == {}


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One title\n[a](page.md#one-title) [b](https://x.y/z) `[c](d)`\n"
        "[e](none.md) [f](page.md#no-title) ![g](none.svg)\n\n[h]: nowhere\n"
    )
    assert dead_links(page) == ["none.md", "page.md#no-title", "none.svg", "nowhere"]


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
    """What measures runs alone, the rest together: one marker selects both, so none is left out."""
    text = (ROOT / "Makefile").read_text()
    assert '-m "not alone" tests' in text and "-m alone tests" in text
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    assert set(MARKED) <= folders


def test_the_page_on_reports_names_sections_that_exist() -> None:
    page = (ROOT / "docs/reading-a-report.md").read_text()
    table = page.partition("## Sections")[2].partition("\n## ")[0]
    named = {
        name
        for row in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
        if row != "section"
        for name in row.split(", ")
    }
    sources = (ROOT / "reports/mi300bench_reports/sections").glob("*.py")
    titles = [
        title
        for source in sources
        for title in re.findall(r'(?:title=f?|else )"([^"]+)"', source.read_text())
    ]
    assert len(named) > 10
    assert not {name for name in named if not any(title.startswith(name) for title in titles)}
