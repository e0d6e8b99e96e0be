"""The three published accounts judged as their verdict tables judge them; files that are none are named."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mi300bench.errors import PlanError, RecordError
from mi300bench.lint import files
from mi300bench.lint.judge import judge, worst
from mi300bench.schema.claim import Claim
from mi300bench.schema.finding import Verdict

SOUND, DOUBTFUL, WRONG, NOT_JUDGED = Verdict.SOUND, Verdict.DOUBTFUL, Verdict.WRONG, Verdict.NOT_JUDGED
# Each row of the three verdict tables, with what they say of it.
EXPECTED = {
    "lora-weights": SOUND, "lora-adapters": WRONG, "lora-vram": DOUBTFUL, "lora-speed": SOUND, "lora-utilisation": WRONG,
    "lora-scaling": DOUBTFUL, "lora-jit": WRONG, "lora-unreplicated": NOT_JUDGED, "lora-communication": NOT_JUDGED,
    "zaya1-read": WRONG, "zaya1-write": WRONG, "zaya1-random-read": WRONG, "zaya1-random-write": WRONG, "zaya1-gemm": WRONG,
    "zaya1-least-k": WRONG, "zaya1-qkv-shape": WRONG, "zaya1-mlp-shape": WRONG, "zaya1-expert-shape": WRONG,
    "zaya1-all-reduce-1": WRONG, "zaya1-all-reduce-16": SOUND, "zaya1-all-reduce-256": WRONG, "zaya1-all-gather-1": WRONG,
    "zaya1-all-gather-16": SOUND, "zaya1-all-gather-256": SOUND, "zaya1-buffer": WRONG, "zaya1-gpus": WRONG,
    "zaya1-throughput": WRONG, "zaya1-utilisation": WRONG, "zaya1-slower": SOUND, "zaya1-prefill": WRONG, "zaya1-cache": SOUND,
    "zaya1-query": WRONG, "zaya1-router": WRONG, "zaya1-multiple": DOUBTFUL, "zaya1-bound": WRONG, "zaya1-active": SOUND,
    "zaya1-total": SOUND, "zaya1-parallel": NOT_JUDGED, "zaya1-practice": NOT_JUDGED,
    "agoq-memory": DOUBTFUL, "agoq-activations": WRONG, "agoq-gradients": SOUND, "agoq-gradients-bf16": WRONG, "agoq-speed": SOUND,
    "agoq-bits": WRONG, "agoq-new": NOT_JUDGED, "agoq-fusion": NOT_JUDGED,
}  # fmt: skip


def verdicts() -> dict[str, Verdict]:
    claims = files.shipped()
    findings = judge(claims)
    return {claim.id: worst(f for f in findings if f.claim == claim.id) for claim in claims}


def test_every_row_is_judged_as_the_tables_judge_it() -> None:
    assert verdicts() == EXPECTED


def test_a_finding_has_the_figures_the_cause_and_the_next_step() -> None:
    findings = {f.claim: f for f in judge(files.shipped()) if f.is_bad}
    for finding in findings.values():
        assert finding.figures and finding.cause and finding.next_step and finding.source, finding
    shares = [f for f in judge(files.shipped()) if f.claim in ("zaya1-read", "zaya1-gemm") and "MI250X" in f.cause]
    assert len(shares) == 2  # the peak that both shares imply
    assert "1,278" in findings["lora-adapters"].figures and "pool" in findings["lora-adapters"].cause
    assert "5.75" in findings["agoq-bits"].figures and "53." in findings["agoq-activations"].figures


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("claims = 3", "no [[claims]]"),
        ("[[claims]]\nsubject = 'x'", "claim 1 has no kind"),
        ("[[claims]]\nkind = 'ratio'\nfigures = 3", "no table"),
        ("[[claims]]\nkind = 'ratio'\nfigures = { stated = true }", "is no figure"),
        ("[[claims", "is no TOML"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(text)
    with pytest.raises(RecordError, match=said.replace("[", r"\[")):
        files.read(path)
    with pytest.raises(PlanError, match="does not exist"):
        files.read(tmp_path / "none.toml")


def test_an_unknown_kind_lists_the_known() -> None:
    (claim,) = files.parse("[[claims]]\nkind = 'magic'", name="x")
    with pytest.raises(RecordError, match="magic") as raised:
        judge([claim])
    assert "throughput" in raised.value.hint


def lint(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mi300bench", "lint", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_command_judges_the_seeds_and_fails_a_file_with_a_wrong_figure(tmp_path: Path) -> None:
    seeds = lint("seeds")
    assert seeds.returncode == 0 and "wrong: lora-adapters" in seeds.stdout and "sound: " not in seeds.stdout
    assert len(json.loads(lint("seeds", "--json").stdout)) > len(EXPECTED)
    path = tmp_path / "mine.toml"
    figures = "{ tokens_per_second = 3.2e6, step_seconds = 0.125, tokens_per_step = 16777216 }"
    path.write_text(f"[[claims]]\nid = 'a'\nkind = 'throughput'\nsubject = 's'\nfigures = {figures}\n")
    answer = lint(str(path))
    assert answer.returncode == 6 and "wrong: a: s" in answer.stdout and "Traceback" not in answer.stderr
    path.write_text(path.read_text().replace("3.2e6", "1.34e8"))
    assert lint(str(path)).returncode == 0
    assert lint(str(tmp_path / "none.toml")).returncode == 2


@pytest.mark.parametrize(("bus", "verdict", "said"), [(310e9, SOUND, "within"), (120e9, DOUBTFUL, "below")])
def test_a_collective_is_held_against_what_others_published(bus: float, verdict: Verdict, said: str) -> None:
    size = 4 * 2**30
    figures = {"device": "mi300x", "op": "all_reduce", "ranks": 8.0, "bytes": float(size), "seconds": size * 1.75 / bus}
    findings = judge([Claim(id="row", kind="transfer", subject="", figures=figures)])
    assert worst(findings) is verdict and any(said in f.figures and "ml-engineering" in f.figures for f in findings)
