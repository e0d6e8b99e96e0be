"""Records and tuned configs as claims."""

import pytest
from mi300bench.lint.finding import LintVerdict
from mi300bench.lint.judge import judge, worst
from mi300bench.lint.sources import claims_of, judge_config
from mi300bench.schema.config import Confirmation, Confirmed, ConfirmedArm, TunedConfig
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Work

MI300X = "AMD Instinct MI300X"


@pytest.mark.parametrize(
    ("probe", "kind"),
    [
        ("memory.copy", "memory_bandwidth"),
        ("jax.memory.add", "memory_bandwidth"),
        ("gemm", "product"),
        ("jax.gemm", "product"),
        ("collective.all_reduce", "transfer"),
        ("jax.collective.all_gather", "transfer"),
        ("transfer", "transfer"),
        ("gemm.experts", None),
        ("overlap", None),
        ("zaya1.step", None),
    ],
)
def test_a_record_is_a_claim_of_its_operation(make_record, probe: str, kind: str | None) -> None:
    assert [claim.kind for claim in claims_of([make_record(probe)])] == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("ranks", "hosts", "sound", "wrong"),
    [(2, "a", 48e9, 90e9), (8, "a", 330e9, 500e9), (16, "a,b", 380e9, 440e9)],
)
def test_the_line_rate_is_that_of_the_links_of_the_group(
    make_record, ranks: int, hosts: str, sound: float, wrong: float
) -> None:
    """Two MI300X share one link of 64 GB/s; two nodes have the adapters of both."""

    def verdict(bus: float) -> LintVerdict:
        factor = 2 * (ranks - 1) / ranks
        record = make_record(
            "collective.all_reduce",
            ranks=ranks,
            device=MI300X,
            params={"bytes": 2**30, "dtype": "float32"},
            samples=(2**30 * factor / bus,) * 3,
            work=Work(message_bytes=2**30),
            conditions={"hosts": hosts},
        )
        return worst(judge(claims_of([record])))

    assert verdict(sound) is LintVerdict.SOUND and verdict(wrong) is LintVerdict.WRONG


@pytest.mark.parametrize(
    ("units", "verdict"), [(304, LintVerdict.WRONG), (38, LintVerdict.NOT_JUDGED)]
)
def test_a_partition_does_not_get_the_peak_of_the_device(
    make_record, units: int, verdict: LintVerdict
) -> None:
    """One of eight partitions of an MI300X has 38 of its 304 compute units."""
    record = make_record(
        "gemm",
        device=MI300X,
        params={"m": 1, "n": 1, "k": 1, "dtype": "bfloat16"},
        samples=(1e-3,) * 3,
        work=Work(flop=3e12),
        conditions={"device_arch": "gfx942", "compute_units": units},
    )
    assert worst(judge(claims_of([record]))) is verdict


@pytest.mark.parametrize(
    ("measured", "verdict"), [(0.9, LintVerdict.SOUND), (0.4, LintVerdict.WRONG)]
)
def test_the_ratio_of_a_config_is_that_of_the_arm_it_names(
    measured: float, verdict: LintVerdict
) -> None:
    def exactly(value: float) -> Interval:
        return Interval(low=value, mid=value, high=value)

    arms = tuple(
        ConfirmedArm(
            label=label,
            predicted_s=exactly(1.0),
            measured_s=exactly(seconds),
            ratio=exactly(0.9),
            verdict="faster",
        )
        for label, seconds in (("other", 0.9), ("pick", measured))
    )
    confirmed = Confirmed(
        candidate="pick",
        default_s=exactly(1.0),
        tuned_s=exactly(1.0),
        ratio=exactly(0.9),
        runs=3,
        verdict=Confirmation.FASTER,
        evidence=(),
        sides=arms,
    )
    tuned = TunedConfig(trainer="zaya1", config={}, choices={}, confirmed=confirmed)
    assert worst(judge_config(tuned, name="x")) is verdict
