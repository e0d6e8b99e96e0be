"""The names that ``import mi300bench`` offers, and the examples of their page."""

import re
import subprocess
import sys
from pathlib import Path

import mi300bench
import pytest

PAGE = Path(__file__).parents[2] / "docs/reference/python.md"


def test_every_name_can_be_had_and_none_other() -> None:
    assert [name for name in mi300bench.__all__ if getattr(mi300bench, name) is None] == []
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = mi300bench.nothing_such


def test_no_public_name_is_a_package_of_ours() -> None:
    packages = {path.name for path in Path(mi300bench.__file__).parent.iterdir() if path.is_dir()}
    assert packages & set(mi300bench.__all__) == set()


def test_importing_loads_none_of_its_modules() -> None:
    code = "import sys, mi300bench; print([n for n in sys.modules if n.startswith('mi300bench.')])"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.torch
def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    script = tmp_path / "examples.py"
    script.write_text(code)
    answer = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "records in" in answer.stdout and "GB/s" in answer.stdout
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert "magic" in answer.stdout.splitlines()[-1]
