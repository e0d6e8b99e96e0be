"""Bandwidth, rates and utilisation against the peaks of devices."""

import pytest
from mi300bench.lint.finding import LintVerdict

from tests.lint.judged import findings_on, verdict_on


def test_a_small_footprint_measures_the_cache_and_is_not_judged() -> None:
    figures = {"device": "mi300x", "pattern": "copy"}
    small = {"bytes": 170e6, "seconds": 1e-5}  # 17 TB/s
    (finding,) = findings_on("memory_bandwidth", **figures, **small)
    assert finding.verdict is LintVerdict.NOT_JUDGED and "cache" in finding.figures
    large = {"bytes": 17e9, "seconds": 1e-3}
    assert verdict_on("memory_bandwidth", **figures, **large) is LintVerdict.WRONG


@pytest.mark.parametrize(
    ("dtype", "verdict"),
    [
        ("bf16_r", LintVerdict.WRONG),
        ("f8_fnuz_r", LintVerdict.SOUND),
        ("float8_e5m2", LintVerdict.SOUND),
        ("xfloat32", LintVerdict.NOT_JUDGED),
    ],
)
def test_a_type_has_its_own_peak_under_any_name(dtype: str, verdict: LintVerdict) -> None:
    assert verdict_on("product", device="MI300X", dtype=dtype, rate=2e15) is verdict


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [
        (1.0, LintVerdict.SOUND),
        (8 / 6, LintVerdict.DOUBTFUL),  # recomputed FLOP are counted as well
        (0.5, LintVerdict.WRONG),
    ],
)
def test_a_stated_mfu_follows_from_tokens_and_parameters(
    factor: float, verdict: LintVerdict
) -> None:
    mfu = 6 * 70e9 * 900 / 989e12
    figures = {"device": "h100", "dtype": "bfloat16", "parameters": 70e9}
    stated = verdict_on("utilisation", mfu=factor * mfu, tokens_per_second=900.0, **figures)
    assert stated is verdict


@pytest.mark.parametrize("device", ["NVIDIA H200 NVL", "NVIDIA GB200", "AMD Instinct MI308X"])
def test_a_device_without_facts_does_not_get_those_of_another(device: str) -> None:
    verdict = verdict_on("product", device=device, dtype="bfloat16", rate=2e15)
    assert verdict is LintVerdict.NOT_JUDGED


@pytest.mark.parametrize("device", ["mi300x", "MI300X", "AMD Instinct MI300X"])
def test_a_device_is_given_by_key_or_by_name(device: str) -> None:
    assert verdict_on("product", device=device, dtype="bfloat16", rate=2e15) is LintVerdict.WRONG


def test_attention_is_bound_by_memory_below_the_ridge() -> None:
    figures = {"device": "mi300x", "dtype": "bfloat16", "stated": "memory"}
    assert verdict_on("bound", seq_len=128.0, **figures) is LintVerdict.SOUND
    assert verdict_on("bound", seq_len=4096.0, **figures) is LintVerdict.WRONG
