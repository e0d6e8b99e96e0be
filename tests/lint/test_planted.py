"""Sound claims drawn by seed are not flagged; the same claims with a planted fault mostly are."""

import random
from collections import Counter

from mi300bench.lint.check import CAUSES
from mi300bench.lint.claim import Claim, Figure
from mi300bench.lint.finding import LintVerdict
from mi300bench.lint.judge import judge, worst
from mi300bench.physics import busbw_factor, gemm_flop

ROWS = 60


def near(draw: random.Random, value: float) -> float:
    """Return a value as a tool prints it: with an error, and four digits."""
    return float(f"{value * (1 + draw.uniform(-0.004, 0.004)):.4g}")


def transfer(draw: random.Random) -> dict[str, Figure]:
    op, ranks = (
        draw.choice(("all_reduce", "all_gather", "reduce_scatter", "all_to_all")),
        draw.choice((2, 4, 8, 16)),
    )
    size = float(2 ** draw.randint(16, 33))
    bus = draw.uniform(0.2, 0.9) * 336e9
    factor = busbw_factor(op, ranks)
    seconds = size / (bus / factor)
    return {
        "op": op,
        "ranks": float(ranks),
        "bytes": size,
        "seconds": near(draw, seconds),
        "algbw": near(draw, bus / factor),
        "busbw": near(draw, bus),
        "line_rate": 448e9,
    }


def product(draw: random.Random) -> dict[str, Figure]:
    m, n, k = (float(draw.randint(8, 128) * 64) for _ in range(3))
    rate = draw.uniform(0.25, 0.6) * 1307.4e12
    seconds = gemm_flop(int(m), int(n), int(k)) / rate
    return {
        "device": "mi300x",
        "dtype": "bfloat16",
        "m": m,
        "n": n,
        "k": k,
        "seconds": near(draw, seconds),
        "rate": near(draw, rate),
    }


def bandwidth(draw: random.Random) -> dict[str, Figure]:
    rate, size = draw.uniform(0.7, 0.85) * 5.3e12, float(2 ** draw.randint(28, 34))
    return {
        "device": "mi300x",
        "bytes": size,
        "seconds": near(draw, size / rate),
        "bandwidth": near(draw, rate),
    }


def throughput(draw: random.Random) -> dict[str, Figure]:
    batch, length = float(draw.randint(8, 4096)), float(2 ** draw.randint(9, 15))
    seconds = draw.uniform(0.5, 30.0)
    return {
        "batch": batch,
        "seq_len": length,
        "tokens_per_step": batch * length,
        "step_seconds": near(draw, seconds),
        "tokens_per_second": near(draw, batch * length / seconds),
    }


def memory(draw: random.Random) -> dict[str, Figure]:
    parts = tuple(near(draw, draw.uniform(10e9, 400e9)) for _ in range(3))
    capacity = 8 * 206_141_652_992
    total = sum(parts)
    return {
        "device": "mi300x",
        "devices": 8.0,
        "parts": parts,
        "total": near(draw, total),
        "share": near(draw, total / capacity),
    }


MAKERS = {
    "transfer": (transfer, ("bytes", "seconds", "algbw", "busbw")),
    "product": (product, ("m", "seconds", "rate")),
    "memory_bandwidth": (bandwidth, ("bytes", "seconds", "bandwidth")),
    "throughput": (throughput, ("batch", "step_seconds", "tokens_per_second", "tokens_per_step")),
    "memory": (memory, ("total", "share")),
}
FACTORS = (2.0, 0.5, 8.0, 1 / 8, 1000.0, 1 / 1000, 1024.0, 1 / 1024)


def rows(seed: int) -> list[tuple[str, dict[str, Figure]]]:
    draw = random.Random(seed)
    return [(kind, MAKERS[kind][0](draw)) for _ in range(ROWS // len(MAKERS)) for kind in MAKERS]


def verdict(kind: str, figures: dict[str, Figure]) -> LintVerdict:
    return worst(judge([Claim(id="row", kind=kind, subject="a row", figures=figures)]))


def test_no_sound_row_is_flagged() -> None:
    for seed in range(20):
        for kind, figures in rows(seed):
            assert verdict(kind, figures) is LintVerdict.SOUND, (kind, figures)


def test_at_least_nine_in_ten_planted_faults_are_found() -> None:
    draw = random.Random(7)
    planted: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for seed in range(20):
        for kind, figures in rows(seed):
            name, factor = draw.choice(MAKERS[kind][1]), draw.choice(FACTORS)
            wrong = figures | {name: float(figures[name]) * factor}  # type: ignore[arg-type]
            planted[kind] += 1
            missed[kind] += verdict(kind, wrong) is not LintVerdict.WRONG
    assert sum(missed.values()) <= 0.1 * sum(planted.values()), (planted, missed)


def test_bits_for_bytes_and_busbw_for_algbw_are_found_and_named() -> None:
    draw = random.Random(3)
    for _ in range(50):
        figures = transfer(draw)
        if figures["ranks"] == 2.0:
            continue  # an all-reduce of two has the same algbw and busbw
        swapped = figures | {"algbw": figures["busbw"]}
        findings = judge([Claim(id="row", kind="transfer", subject="", figures=swapped)])
        assert any(f.verdict is LintVerdict.WRONG for f in findings), figures
        bits = figures | {name: float(figures[name]) * 8 for name in ("algbw", "busbw")}  # type: ignore[arg-type]
        wrong = [
            f
            for f in judge([Claim(id="row", kind="transfer", subject="", figures=bits)])
            if f.verdict is LintVerdict.WRONG
        ]
        assert wrong and any(f.cause == dict(CAUSES)[8.0] for f in wrong)
