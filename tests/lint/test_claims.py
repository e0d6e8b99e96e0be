"""The three published accounts judged as their verdict tables judge them; files that are none are named."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mi300bench.errors import PlanError, RecordError
from mi300bench.lint import files
from mi300bench.lint.judge import KINDS, judge, worst
from mi300bench.lint.sources import claims_of, judge_config
from mi300bench.schema.claim import Claim
from mi300bench.schema.config import Confirmation, Confirmed, Side, TunedConfig
from mi300bench.schema.finding import LintVerdict
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Work
from mi300bench.store.writer import RunWriter

SOUND, DOUBTFUL, WRONG, NOT_JUDGED = (
    LintVerdict.SOUND,
    LintVerdict.DOUBTFUL,
    LintVerdict.WRONG,
    LintVerdict.NOT_JUDGED,
)
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


def verdicts() -> dict[str, LintVerdict]:
    claims = files.shipped()
    findings = judge(claims)
    return {claim.id: worst(f for f in findings if f.claim == claim.id) for claim in claims}


def test_every_row_is_judged_as_the_tables_judge_it() -> None:
    assert verdicts() == EXPECTED


def test_a_finding_has_the_figures_the_cause_and_the_next_step() -> None:
    findings = {f.claim: f for f in judge(files.shipped()) if f.is_bad}
    for finding in findings.values():
        assert finding.figures and finding.cause and finding.next_step and finding.source, finding
    shares = [
        f
        for f in judge(files.shipped())
        if f.claim in ("zaya1-read", "zaya1-gemm") and "MI250X" in f.cause
    ]
    assert len(shares) == 2  # the peak that both shares imply
    assert (
        "1,278" in findings["lora-adapters"].figures and "pool" in findings["lora-adapters"].cause
    )
    assert "5.75" in findings["agoq-bits"].figures and "53." in findings["agoq-activations"].figures


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("claims = 3", "no [[claims]]"),
        ("[[claims]]\nsubject = 'x'", "claim 1 has no kind"),
        ("[[claims]]\nkind = 'ratio'\nfigures = 3", "no table"),
        ("[[claims]]\nkind = 'ratio'\nfigures = { stated = true }", "is no figure"),
        ("[[claims", "is no TOML"),
        ("[[claims]]\nkind = 'ratio'\nfigures = { stated = [1, true] }", "is no figure"),
        ("[[claims]]\nkind = 'ratio'\nseconds = 3", "has seconds, which nothing reads"),
        (
            "[[claims]]\nid = 'a'\nkind = 'ratio'\n[[claims]]\nid = 'a'\nkind = 'ratio'",
            "two claims are called 'a'",
        ),
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


@pytest.mark.parametrize(
    ("kind", "figures", "said"),
    [
        ("throughput", {"token_per_second": 3.0}, "no rule reads token_per_second"),
        ("throughput", {"batch": "many"}, "is not a number"),
        ("fit", {"device": 3.0}, "is not a text"),
        ("throughput", {"batch": float("nan")}, "no figure of this kind"),
        ("memory", {"devices": 0.0}, "no figure of this kind"),
        ("average", {"values": (1.0, "x")}, "no figure of this kind"),
        (
            "transfer",
            {"op": "all_sum", "bytes": 1.0, "seconds": 1.0, "algbw": 1.0},
            "no operation is called 'all_sum'",
        ),
    ],
    ids=str,
)
def test_a_figure_that_no_rule_can_read_is_named_and_never_vanishes(
    kind: str, figures: dict, said: str
) -> None:
    with pytest.raises(RecordError, match=said):
        judge([Claim(id="row", kind=kind, subject="", figures=figures)])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "statement"])
def test_a_claim_of_too_few_figures_says_so(kind: str) -> None:
    (finding,) = judge([Claim(id="row", kind=kind, subject="")])
    assert finding.verdict is NOT_JUDGED and finding.figures


def one(kind: str, **figures) -> tuple[LintVerdict, str]:
    """The verdict on one claim, and all that is said of it."""
    findings = judge([Claim(id="row", kind=kind, subject="", figures=figures)])
    return worst(findings), " ".join(f"{f.figures} {f.cause}" for f in findings)


def test_the_nearest_cause_is_named() -> None:
    for factor, cause in (
        (1000.0, "off by 1000"),
        (1024.0, "off by 1024"),
        (1.024**3, "GiB for GB"),
    ):
        verdict, said = one("memory_bandwidth", bytes=4e9, seconds=1e-3, bandwidth=4e12 * factor)
        assert verdict is WRONG and cause in said, (factor, said)


def test_ranks_that_were_not_told_are_not_one_rank() -> None:
    for ranks in ({}, {"ranks": 1.0}):
        verdict, _ = one(
            "transfer", op="AllReduce", bytes=1e9, seconds=1e-2, algbw=1e11, busbw=1.75e11, **ranks
        )
        assert verdict is SOUND
        assert (
            one(
                "transfer", op="allreduce", bytes=1e9, seconds=1e-2, algbw=1e11, busbw=8e11, **ranks
            )[0]
            is WRONG
        )


def test_what_a_tool_rounds_away_is_not_wrong() -> None:
    assert (
        one(
            "transfer",
            op="all_reduce",
            ranks=8.0,
            bytes=64.0,
            seconds=9e-6,
            algbw=0.01e9,
            busbw=0.01e9,
        )[0]
        is SOUND
    )


def test_a_reduction_in_the_switch_may_pass_the_ring_s_bound_and_no_other() -> None:
    shared = {"op": "all_reduce", "ranks": 8.0, "bytes": 4.0 * 2**30, "line_rate": 450e9}
    assert one("transfer", device="h200", seconds=4 * 2**30 * 1.75 / 473e9, **shared)[0] is SOUND
    assert one("transfer", device="h200", seconds=4 * 2**30 * 1.75 / 900e9, **shared)[0] is WRONG
    assert one("transfer", device="mi300x", seconds=4 * 2**30 * 1.75 / 473e9, **shared)[0] is WRONG


def test_a_sweep_s_small_sizes_are_the_cache_s() -> None:
    fast = {"device": "mi300x", "pattern": "copy", "seconds": 1e-5}
    verdict, said = one("memory_bandwidth", bytes=17e12 * 1e-5, **fast)  # 170 MB at 17 TB/s
    assert verdict is NOT_JUDGED and "cache" in said
    assert one("memory_bandwidth", bytes=17e12 * 1e-3, **fast | {"seconds": 1e-3})[0] is WRONG


@pytest.mark.parametrize(
    ("dtype", "verdict"),
    [("bf16_r", WRONG), ("f8_fnuz_r", SOUND), ("float8_e5m2", SOUND), ("xfloat32", NOT_JUDGED)],
)
def test_a_type_has_its_own_peak_under_any_name(dtype: str, verdict: LintVerdict) -> None:
    assert one("product", device="MI300X", dtype=dtype, rate=2e15)[0] is verdict


def test_use_of_the_hardware_is_not_wrong_but_is_not_mfu() -> None:
    figures = {
        "device": "h100",
        "dtype": "bfloat16",
        "parameters": 70e9,
        "tokens_per_second": 900.0,
    }
    mfu = 6 * 70e9 * 900 / 989e12
    assert one("utilisation", mfu=mfu, **figures)[0] is SOUND
    verdict, said = one("utilisation", mfu=mfu * 8 / 6, **figures)
    assert verdict is DOUBTFUL and "computed again" in said
    assert one("utilisation", mfu=mfu / 2, **figures)[0] is WRONG


def test_of_a_large_saving_what_remains_tells() -> None:
    assert one("saving", stated=0.99, before=100.0, after=5.0)[0] is WRONG
    assert one("saving", stated=0.95, before=100.0, after=5.4)[0] is SOUND
    assert one("saving", stated=0.08, before=100.0, after=90.0)[0] is WRONG


def test_facts_of_a_part_or_a_relative_are_not_taken() -> None:
    for name in ("NVIDIA H200 NVL", "NVIDIA GB200", "AMD Instinct MI308X"):
        assert one("product", device=name, dtype="bfloat16", rate=2e15)[0] is NOT_JUDGED
    assert (
        one("product", device="mi300x", dtype="bfloat16", rate=2e15)[0] is WRONG
    )  # a key, however it is written
    assert one("product", device="MI300X", dtype="bfloat16", rate=2e15)[0] is WRONG


def test_fewer_ranks_have_fewer_links(make_record) -> None:
    """Two MI300X share one link of 64 GB/s; two nodes the adapters of both."""

    def verdict(bus: float, ranks: int, hosts: str = "a") -> LintVerdict:
        factor = 2 * (ranks - 1) / ranks
        record = make_record(
            "collective.all_reduce", ranks=ranks, device="AMD Instinct MI300X", params={"bytes": 2**30, "dtype": "float32"},
            samples=(2**30 * factor / bus,) * 3, work=Work(message_bytes=2**30), conditions={"hosts": hosts},
        )  # fmt: skip
        return worst(judge(claims_of([record])))

    assert verdict(48e9, 2) is SOUND and verdict(90e9, 2) is WRONG
    assert verdict(330e9, 8) is SOUND and verdict(500e9, 8) is WRONG
    assert verdict(380e9, 16, "a,b") is SOUND and verdict(440e9, 16, "a,b") is WRONG


def test_a_part_of_a_device_has_no_whole_one_s_peak(make_record) -> None:
    """One of eight partitions of an MI300X has 38 of its 304 units."""

    def verdict(units: int) -> LintVerdict:
        record = make_record(
            "gemm", device="AMD Instinct MI300X", params={"m": 1, "n": 1, "k": 1, "dtype": "bfloat16"}, samples=(1e-3,) * 3,
            work=Work(flop=3e12), conditions={"device_arch": "gfx942", "compute_units": units},
        )  # fmt: skip
        return worst(judge(claims_of([record])))

    assert verdict(304) is WRONG and verdict(38) is NOT_JUDGED


def test_a_ratio_is_that_of_the_side_it_names() -> None:
    interval = Interval(low=0.9, mid=0.9, high=0.9)
    seconds = Interval(low=1.0, mid=1.0, high=1.0)
    sides = tuple(
        Side(
            label=label,
            predicted_s=seconds,
            measured_s=Interval(low=mid, mid=mid, high=mid),
            ratio=interval,
            verdict="faster",
        )
        for label, mid in (("other", 0.9), ("pick", 0.4))
    )
    confirmed = Confirmed(
        candidate="pick", default_s=seconds, tuned_s=seconds, ratio=interval, runs=3, verdict=Confirmation.FASTER, evidence=(),
        sides=sides,
    )  # fmt: skip
    tuned = TunedConfig(trainer="zaya1", config={}, choices={}, confirmed=confirmed)
    assert worst(judge_config(tuned, name="x")) is WRONG


def lint(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mi300bench", "lint", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_command_judges_the_seeds_and_fails_a_file_with_a_wrong_figure(tmp_path: Path) -> None:
    seeds = lint("seeds")
    assert (
        seeds.returncode == 0
        and "wrong: lora-adapters" in seeds.stdout
        and "sound: " not in seeds.stdout
    )
    assert len(json.loads(lint("seeds", "--json").stdout)) > len(EXPECTED)
    path = tmp_path / "mine.toml"
    figures = "{ tokens_per_second = 3.2e6, step_seconds = 0.125, tokens_per_step = 16777216 }"
    path.write_text(
        f"[[claims]]\nid = 'a'\nkind = 'throughput'\nsubject = 's'\nfigures = {figures}\n"
    )
    answer = lint(str(path))
    assert (
        answer.returncode == 6
        and "wrong: a: s" in answer.stdout
        and "Traceback" not in answer.stderr
    )
    path.write_text(path.read_text().replace("3.2e6", "1.34e8"))
    assert lint(str(path)).returncode == 0
    assert lint(str(tmp_path / "none.toml")).returncode == 2


def test_a_store_a_node_and_a_run_are_judged_and_an_empty_one_is_named(
    tmp_path: Path, make_record
) -> None:
    with RunWriter(tmp_path, node="n1", header={"plan": "", "passes": 1, "points": 1}) as writer:
        writer.write(make_record("gemm", params={"m": 1, "n": 1, "k": 1}, samples=(1e-3,), series={"stated_rate": (1e12,)},
                                 work=Work(flop=1e12)))  # fmt: skip
        writer.finish()
    for place in (tmp_path, tmp_path / "n1", next((tmp_path / "n1").glob("*.jsonl"))):
        answer = lint(str(place))
        assert answer.returncode == 6 and "1 claim(s) cannot be right" in answer.stderr, (
            answer.stderr
        )
    (tmp_path / "empty").mkdir()
    answer = lint(str(tmp_path / "empty"))
    assert answer.returncode == 4 and "holds no record" in answer.stderr


@pytest.mark.parametrize(
    ("bus", "verdict", "said"), [(310e9, SOUND, "within"), (120e9, DOUBTFUL, "below")]
)
def test_a_collective_is_held_against_what_others_published(
    bus: float, verdict: LintVerdict, said: str
) -> None:
    size = 4 * 2**30
    figures = {
        "device": "mi300x",
        "op": "all_reduce",
        "ranks": 8.0,
        "bytes": float(size),
        "seconds": size * 1.75 / bus,
    }
    findings = judge([Claim(id="row", kind="transfer", subject="", figures=figures)])
    assert worst(findings) is verdict and any(
        said in f.figures and "ml-engineering" in f.figures for f in findings
    )
