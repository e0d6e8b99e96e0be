"""mi300bench lint: what it reads, and its exit codes."""

import json
import subprocess
import sys
from pathlib import Path

from mi300bench.lint import files
from mi300bench.schema.record import Work
from mi300bench.store.writer import RunWriter


def lint(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mi300bench", "lint", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_seeds_are_judged_and_never_fail() -> None:
    seeds = lint("seeds")
    assert seeds.returncode == 0
    assert "wrong: lora-adapters" in seeds.stdout and "sound: " not in seeds.stdout
    findings = json.loads(lint("seeds", "--json").stdout)
    assert {finding["claim"] for finding in findings} == {claim.id for claim in files.shipped()}


def test_a_wrong_figure_in_a_file_fails(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    figures = "{ tokens_per_second = 3.2e6, step_seconds = 0.125, tokens_per_step = 16777216 }"
    path.write_text(
        f"[[claims]]\nid = 'a'\nkind = 'throughput'\nsubject = 's'\nfigures = {figures}\n"
    )
    answer = lint(str(path))
    assert answer.returncode == 6
    assert "wrong: a: s" in answer.stdout and "Traceback" not in answer.stderr
    path.write_text(path.read_text().replace("3.2e6", "1.34e8"))
    assert lint(str(path)).returncode == 0
    assert lint(str(tmp_path / "none.toml")).returncode == 2


def test_a_store_a_node_and_a_run_are_judged(tmp_path: Path, make_record) -> None:
    record = make_record(
        "gemm",
        params={"m": 1, "n": 1, "k": 1},
        samples=(1e-3,),
        series={"stated_rate": (1e12,)},
        work=Work(flop=1e12),
    )
    with RunWriter(tmp_path, node="n1", header={"plan": "", "passes": 1, "points": 1}) as writer:
        writer.write(record)
        writer.finish()
    for place in (tmp_path, tmp_path / "n1", next((tmp_path / "n1").glob("*.jsonl"))):
        answer = lint(str(place))
        assert answer.returncode == 6 and record.id in answer.stderr, answer.stderr


def test_a_store_without_records_is_an_error(tmp_path: Path) -> None:
    answer = lint(str(tmp_path))
    assert answer.returncode == 4 and str(tmp_path) in answer.stderr
