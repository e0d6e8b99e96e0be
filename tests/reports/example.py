"""An example of a store and of a tuned config, small enough to know every number."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mi300bench.schema.config import (
    Alternative,
    Choice,
    Confirmation,
    Confirmed,
    ConfirmedArm,
    TunedConfig,
)
from mi300bench.schema.doubt import FewPasses
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement, Outcome, Work

from mi300bench_reports.elements import Page, Section

MakeRecord = Callable[..., Measurement]
MI300X = "AMD Instinct MI300X"
# Text that must never become markup, in HTML or in a chart.
ATTACK = '<script>alert("x")</script><img src=x onerror=alert(1)>$\\frac{1}{'
BUCKET = "ddp.bucket_cap_mb"


def section(page: Page, anchor: str) -> Section:
    """Return the section of a page with this anchor."""
    return next(section for section in page.sections if section.anchor == anchor)


def seconds(mid: float, spread: float = 0.1) -> Interval:
    """Return an interval of seconds around `mid`."""
    return Interval(low=mid * (1 - spread), mid=mid, high=mid * (1 + spread))


def gemm(make_record: MakeRecord, m: int, n: int, k: int, rate: float, **parts: Any) -> Measurement:
    """Return a matrix product of bfloat16 that ran at `rate` FLOP/s."""
    flop = 2.0 * m * n * k
    shape = {"m": m, "n": n, "k": k, "layout": "nn", "dtype": "bfloat16", "cache": "cold"}
    return make_record(
        "gemm",
        params=shape | {"inputs": "normal"},
        samples=(flop / rate,) * 5,
        work=Work(flop=flop, bytes_read=2.0 * (m * k + k * n), bytes_written=2.0 * m * n),
        **parts,
    )


def copy(make_record: MakeRecord, size: int, rate: float, **parts: Any) -> Measurement:
    """Return a copy of `size` bytes that moved `rate` bytes per second."""
    parts = {"params": {"bytes": size, "variant": "op"}} | parts
    return make_record(
        samples=(2 * size / rate,) * 5, work=Work(bytes_read=size, bytes_written=size), **parts
    )


def all_reduce(make_record: MakeRecord, size: int, taken_s: float, **parts: Any) -> Measurement:
    """Return an all-reduce of `size` bytes that took `taken_s` seconds."""
    parts = {"ranks": 2} | parts
    return make_record(
        "collective.all_reduce",
        params={"bytes": size, "dtype": "float32"},
        samples=(taken_s,) * 5,
        work=Work(message_bytes=size),
        **parts,
    )


def example_records(make_record: MakeRecord) -> list[Measurement]:
    """Return a store of one machine with a record of nearly every kind."""
    sizes = (2**16, 2**20, 2**24, 2**28)
    shape = {"m": 64, "n": 64, "k": 64, "layout": "nn", "dtype": "float32", "cache": "hot"}
    overlap = {
        "compute_alone_s": (1.0,),
        "collective_alone_s": (1.5,),
        "compute_beside_s": (1.2,),
        "both_s": (1.6,),
    }
    backward = {
        "parameter": ("a", "b"),
        "parameter_bytes": (2**20, 2**22),
        "ready_s": (0.1, 0.2) * 5,
        "forward_s": (0.1,) * 5,
        "backward_s": (0.2,) * 5,
        "update_s": (0.1,) * 5,
    }
    return [
        *(copy(make_record, size, 100e9 if size < 2**24 else 20e9) for size in sizes),
        *(all_reduce(make_record, size, 1e-4 + size / 1e9) for size in sizes),
        make_record("gemm", params=shape, work=Work(flop=2 * 64**3), doubts=(FewPasses(passes=1),)),
        make_record("gemm", params=shape | {"m": 65}, outcome=Outcome.FAILED, reason="it broke"),
        make_record(
            "overlap",
            params={"bytes": 2**20, "m": 8, "n": 8, "k": 8, "dtype": "float32"},
            ranks=2,
            series=overlap,
            work=Work(message_bytes=2**21),
        ),
        make_record(
            "zaya1.train",
            params={"preset": "tiny"},
            series={"loss": (5.0, 4.0), "held_out_loss": (4.1,)},
        ),
        make_record("zaya1.backward", params={"preset": "tiny"}, ranks=2, series=backward),
        make_record("zaya1.step", params={"preset": "tiny", BUCKET: "1,50"}, ranks=2),
    ]


def example_config(records: Sequence[Measurement]) -> TunedConfig:
    """Return a config in which fresh runs confirmed the buckets that `records` predicted."""
    evidence = tuple(record.id for record in records)
    arms = (
        ConfirmedArm(
            label="default",
            predicted_s=seconds(1.0),
            measured_s=seconds(1.0),
            ratio=Interval(low=1.0, mid=1.0, high=1.0),
            verdict="same",
            evidence=("ran-default",),
        ),
        ConfirmedArm(
            label="1,50",
            predicted_s=seconds(0.9),
            measured_s=seconds(0.8),
            ratio=seconds(0.8, 0.05),
            verdict="faster",
            evidence=("ran-tuned",),
        ),
        ConfirmedArm(
            label="default",
            predicted_s=seconds(0.95),
            measured_s=seconds(0.88),
            ratio=seconds(0.88, 0.05),
            verdict="faster",
            reverts="buckets",
            over_best=seconds(1.1, 0.02),
        ),
    )
    choice = Choice(
        value=[1.0, 50.0],
        default="default",
        why="it is faster",
        evidence=evidence,
        doubts=("few passes",),
        alternatives=(
            Alternative(value="default", predicted_s=seconds(1.0), same_as=(25.0,)),
            Alternative(value=[1.0, 50.0], predicted_s=seconds(0.9)),
        ),
    )
    return TunedConfig(
        trainer="zaya1",
        config={"ddp": {"bucket_cap_mb": [1.0, 50.0]}, "steps": 3},
        choices={BUCKET: choice},
        confirmed=Confirmed(
            candidate="1,50",
            default_s=seconds(1.0),
            tuned_s=seconds(0.8),
            ratio=seconds(0.8, 0.05),
            runs=3,
            verdict=Confirmation.FASTER,
            evidence=("ran-default", "ran-tuned"),
            sides=arms,
        ),
        node="n1",
        device="a CPU",
        made_by="mi300bench tune zaya1",
    )


def with_verdict(config: TunedConfig, verdict: Confirmation) -> TunedConfig:
    """Return a config whose fresh runs came to another verdict."""
    assert config.confirmed is not None
    return replace(config, confirmed=replace(config.confirmed, verdict=verdict))


def mi300x_records(make_record: MakeRecord) -> list[Measurement]:
    """Return 16 matrix products and one copy of an MI300X, at plausible rates."""
    products = [
        gemm(make_record, m, n, k, 400e12 * k / (k + 800), device=MI300X)
        for m in (1024, 4096)
        for n in (1024, 8192)
        for k in (256, 1024, 4096, 16384)
    ]
    return [*products, copy(make_record, 2**31, 4.1e12, device=MI300X)]
