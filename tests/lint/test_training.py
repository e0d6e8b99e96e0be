"""Tokens, memory, state and scaling of training."""

import pytest
from mi300bench.lint.finding import LintVerdict
from mi300bench.lint.training import JAX_POOL

from tests.lint.judged import findings_on, verdict_on

GIB = 2.0**30


def test_tokens_per_second_are_those_of_the_batch() -> None:
    figures = {"step_seconds": 2.0, "batch": 16.0, "seq_len": 64.0}
    assert verdict_on("throughput", tokens_per_second=512.0, **figures) is LintVerdict.SOUND
    (finding,) = findings_on("throughput", tokens_per_second=4096.0, **figures)
    assert finding.verdict is LintVerdict.WRONG and "512" in finding.figures


def test_parts_of_memory_sum_up_and_fit() -> None:
    figures = {"device": "mi300x", "devices": 2.0, "total": 300 * GIB}
    assert verdict_on("memory", parts=(100 * GIB, 200 * GIB), **figures) is LintVerdict.SOUND
    assert verdict_on("memory", parts=(100 * GIB, 100 * GIB), **figures) is LintVerdict.WRONG
    assert verdict_on("memory", **figures | {"devices": 1.0}) is LintVerdict.WRONG


def test_a_constant_share_under_jax_may_be_its_pool() -> None:
    figures = {"share": JAX_POOL, "instrument": "pool"}
    assert verdict_on("memory", framework="jax", **figures) is LintVerdict.DOUBTFUL
    assert verdict_on("memory", framework="torch", **figures) is LintVerdict.NOT_JUDGED


@pytest.mark.parametrize(
    ("each", "verdict"),
    [(0.25, LintVerdict.WRONG), (2.0, LintVerdict.SOUND), (30.0, LintVerdict.WRONG)],
)
def test_state_has_a_plausible_number_of_bytes(each: float, verdict: LintVerdict) -> None:
    assert verdict_on("state", parameters=1e9, bytes=each * 1e9) is verdict


def test_scaling_needs_a_run_on_fewer_devices() -> None:
    figures = {"device": "mi300x", "parameters": 400e9, "bytes_per_parameter": 2.0}
    assert verdict_on("scaling", devices=(1.0, 8.0), **figures) is LintVerdict.DOUBTFUL
    assert verdict_on("scaling", devices=(8.0, 16.0), **figures) is LintVerdict.SOUND


def test_a_stated_fit_is_compared_with_the_memory() -> None:
    figures = {"device": "mi300x", "needed_bytes": 100 * GIB}
    assert verdict_on("fit", stated="fits", **figures) is LintVerdict.SOUND
    assert verdict_on("fit", stated="does not fit", **figures) is LintVerdict.WRONG
