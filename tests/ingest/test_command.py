"""mi300bench import: what it prints, and its exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ingest.sample_files import SAMPLES


def imported(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mi300bench", "import", *arguments, "--store", str(store)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_check_lists_what_was_not_read_and_writes_nothing(tmp_path: Path) -> None:
    answer = imported(tmp_path / "runs", "--check", str(SAMPLES / "rccl_messy.txt"))
    assert answer.returncode == 0 and "line 19" in answer.stdout
    assert not (tmp_path / "runs").exists()


def test_the_json_names_the_records(tmp_path: Path) -> None:
    answer = imported(tmp_path, "--json", str(SAMPLES / "mamf.txt"))
    (document,) = json.loads(answer.stdout)
    assert document["read"] == 3 and len(document["records"]) == 3


@pytest.mark.parametrize(("name", "code"), [("empty.txt", 4), ("none.txt", 2)])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, code: int) -> None:
    (tmp_path / "empty.txt").write_text("nothing of any tool")
    answer = imported(tmp_path / "runs", str(tmp_path / name))
    assert answer.returncode == code and name in answer.stderr
    assert "Traceback" not in answer.stderr
