"""The three published accounts that ship get the verdicts of their verdict tables."""

import pytest
from mi300bench.lint import files
from mi300bench.lint.finding import LintVerdict
from mi300bench.lint.judge import judge, worst
from mi300bench.lint.peaks import SHARE

# Each row of the three verdict tables, with its verdict.
EXPECTED = {
    "lora-weights": LintVerdict.SOUND,
    "lora-adapters": LintVerdict.WRONG,
    "lora-vram": LintVerdict.DOUBTFUL,
    "lora-speed": LintVerdict.SOUND,
    "lora-utilisation": LintVerdict.WRONG,
    "lora-scaling": LintVerdict.DOUBTFUL,
    "lora-jit": LintVerdict.WRONG,
    "lora-unreplicated": LintVerdict.NOT_JUDGED,
    "lora-communication": LintVerdict.NOT_JUDGED,
    "zaya1-read": LintVerdict.WRONG,
    "zaya1-write": LintVerdict.WRONG,
    "zaya1-random-read": LintVerdict.WRONG,
    "zaya1-random-write": LintVerdict.WRONG,
    "zaya1-gemm": LintVerdict.WRONG,
    "zaya1-least-k": LintVerdict.WRONG,
    "zaya1-qkv-shape": LintVerdict.WRONG,
    "zaya1-mlp-shape": LintVerdict.WRONG,
    "zaya1-expert-shape": LintVerdict.WRONG,
    "zaya1-all-reduce-1": LintVerdict.WRONG,
    "zaya1-all-reduce-16": LintVerdict.SOUND,
    "zaya1-all-reduce-256": LintVerdict.WRONG,
    "zaya1-all-gather-1": LintVerdict.WRONG,
    "zaya1-all-gather-16": LintVerdict.SOUND,
    "zaya1-all-gather-256": LintVerdict.SOUND,
    "zaya1-buffer": LintVerdict.WRONG,
    "zaya1-gpus": LintVerdict.WRONG,
    "zaya1-throughput": LintVerdict.WRONG,
    "zaya1-utilisation": LintVerdict.WRONG,
    "zaya1-slower": LintVerdict.SOUND,
    "zaya1-prefill": LintVerdict.WRONG,
    "zaya1-cache": LintVerdict.SOUND,
    "zaya1-query": LintVerdict.WRONG,
    "zaya1-router": LintVerdict.WRONG,
    "zaya1-multiple": LintVerdict.DOUBTFUL,
    "zaya1-bound": LintVerdict.WRONG,
    "zaya1-active": LintVerdict.SOUND,
    "zaya1-total": LintVerdict.SOUND,
    "zaya1-parallel": LintVerdict.NOT_JUDGED,
    "zaya1-practice": LintVerdict.NOT_JUDGED,
    "agoq-memory": LintVerdict.DOUBTFUL,
    "agoq-activations": LintVerdict.WRONG,
    "agoq-gradients": LintVerdict.SOUND,
    "agoq-gradients-bf16": LintVerdict.WRONG,
    "agoq-speed": LintVerdict.SOUND,
    "agoq-bits": LintVerdict.WRONG,
    "agoq-new": LintVerdict.NOT_JUDGED,
    "agoq-fusion": LintVerdict.NOT_JUDGED,
}


def test_every_row_gets_the_verdict_of_the_tables() -> None:
    claims = files.shipped()
    findings = judge(claims)
    verdicts = {claim.id: worst(f for f in findings if f.claim == claim.id) for claim in claims}
    assert verdicts == EXPECTED


def test_a_bad_finding_has_figures_cause_next_step_and_source() -> None:
    for finding in judge(files.shipped()):
        assert finding.figures and finding.source
        assert bool(finding.cause) == bool(finding.next_step) == finding.is_bad


def test_findings_hold_the_figures_that_follow() -> None:
    findings = {finding.claim: finding for finding in judge(files.shipped()) if finding.is_bad}
    assert "1,278" in findings["lora-adapters"].figures
    assert "5.75" in findings["agoq-bits"].figures
    assert "53." in findings["agoq-activations"].figures


@pytest.mark.parametrize("claim", ["zaya1-read", "zaya1-gemm"])
def test_the_peak_that_a_share_implies_names_the_device_that_has_it(claim: str) -> None:
    findings = [finding for finding in judge(files.shipped()) if finding.claim == claim]
    (share,) = [finding for finding in findings if finding.rule == SHARE]
    assert "MI250X" in share.cause
