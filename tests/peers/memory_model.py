"""The memory model of zaya1 against the allocator, and the largest micro-batch under a limit.

Ten configurations are drawn by seed.

    python -m tests.peers.memory_model

The limit is real: a child process gets it as RLIMIT_DATA beyond what it holds before the model is
built, and the largest micro-batch that trains three steps there is held against the largest that
the model allows.
"""

import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from mi300bench.measurement import plans
from mi300bench.measurement.local_topology import local_topology
from mi300bench.measurement.measure import measure
from mi300bench.measurement.settings import Settings
from mi300bench.schema.plan import Stop
from mi300bench.strategies.ddp.memory import MARGIN
from mi300bench.units import MIB

from mi300bench_training.zaya1 import memory
from mi300bench_training.zaya1.spec import TRAINER

SEED, CONFIGURATIONS = 20_261_203, 10
ONCE = Stop(min_samples=1, max_seconds=0.0, warmup_seconds=0.0, min_warmup_calls=1)
MICRO_BATCHES = (1, 2, 4, 8, 16, 32)
# (limit in MiB, what else is set)
LIMITS = (
    (2048, {}),
    (2048, {"compute.loss_chunk": 128, "compute.recompute": "block"}),
    (2048, {"precision": "bfloat16"}),
)


def drawn() -> list[tuple[int, dict]]:
    """Return (ranks, keys) of the configurations."""
    draw = random.Random(SEED)
    axes = {
        "data.seq_len": (64, 128, 256),
        "data.micro_batch": (1, 2, 4, 8),
        "data.accumulate": (1, 1, 2),
        "compute.experts": ("grouped", "padded", "loop"),
        "compute.recompute": ("none", "block"),
        "compute.loss_chunk": (0, 64, 256),
        "precision": ("float32", "bfloat16"),
        "model.hidden": (384, 512, 640),
        "model.expert_width": (384, 512, 768),
    }
    return [
        (draw.choice((1, 2)), {key: draw.choice(values) for key, values in axes.items()})
        for _ in range(CONFIGURATIONS)
    ]


def against_the_instrument() -> None:
    """Print predicted and seen peaks."""
    points = [
        plans.point(
            "zaya1.memory", {"preset": "small"} | keys, local_topology("cpu", ranks), stop=ONCE
        )
        for ranks, keys in drawn()
    ]
    measured = measure(
        plans.plan("memory", points, passes=1), Settings(store=Path(tempfile.mkdtemp()), say=print)
    )
    errors = []
    for record in measured.records:
        load = statistics.mean(record.series["expert_load"])
        seen = record.series["peak_bytes"][0]
        found = memory.need(TRAINER.from_params(record.params), ranks=record.world.ranks, load=load)
        errors.append(found.peak_bytes / seen - 1)
        shown = " ".join(
            f"{k.split('.')[-1]}={v}" for k, v in record.params.items() if k != "preset"
        )
        print(
            f"{record.world.ranks} rank(s) {shown}: {seen / MIB:.0f} MiB, "
            f"predicted {found.peak_bytes / MIB:.0f} "
            f"({errors[-1]:+.1%}, {found.moment})",
            flush=True,
        )
    print(f"largest error of {len(errors)}: {max(map(abs, errors)):.1%}")


def child(limit_bytes: int, keys: dict) -> None:
    """Train three steps within `limit_bytes` beyond what is held; the exit status is the answer."""
    from mi300bench.device.open import open_torch_device
    from mi300bench.schema.probe import RankContext

    from mi300bench_training.zaya1 import measure as probes

    device = open_torch_device("cpu", threads=2)
    probe = probes.ZayaStep(
        {"preset": "small", "data.seq_len": 128} | keys, RankContext(rank=0, ranks=1, device=device)
    )
    from mi300bench_training.zaya1 import data

    probe.corpus = data.load(probe.config)
    held = int(re.search(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text()).group(1)) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (held + limit_bytes, held + limit_bytes))
    probe.build()
    for _ in range(3):
        probe.call()


def held_over_tensors(keys: dict) -> float:
    """Return what a fresh process holds over its tensors, measured as the tuner does."""
    params = {"preset": "small", "data.seq_len": 128, "data.micro_batch": 4} | keys
    point = plans.point("zaya1.memory", params, local_topology("cpu", 1), stop=ONCE)
    (record,) = measure(
        plans.plan("memory", [point], passes=1), Settings(store=Path(tempfile.mkdtemp()), say=print)
    ).records
    return (record.series["held_bytes"][0] - record.series["held_before_bytes"][0]) / record.series[
        "peak_bytes"
    ][0]


def allowed(limit_bytes: float, keys: dict, factor: float) -> int:
    """Return the largest micro-batch that the tuner proposes.

    By the model, then measured, until one was seen to fit.
    """
    base = {"preset": "small", "data.seq_len": 128}
    needs = {
        s: memory.need(
            TRAINER.from_params(base | {"data.micro_batch": s} | keys), ranks=1
        ).peak_bytes
        for s in MICRO_BATCHES
    }
    for size in reversed(MICRO_BATCHES):
        may_fit = MARGIN * factor * needs[size] <= limit_bytes
        if (
            may_fit
            and held_over_tensors({"data.micro_batch": size} | keys) * needs[size] <= limit_bytes
        ):
            return size
    return 0


def largest() -> None:
    """Print, by limit, the largest micro-batch that the tuner proposes and that which runs."""
    factor = held_over_tensors({})
    print(f"a process holds {factor:.2f} times its tensors (default config)", flush=True)
    for limit_mib, keys in LIMITS:
        proposed, ran = allowed(limit_mib * MIB, keys, factor), 0
        for size in MICRO_BATCHES:
            asked = f"{limit_mib * MIB}, {keys | {'data.micro_batch': size}!r}"
            code = f"from tests.peers.memory_model import child; child({asked})"
            answer = subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            if answer.returncode != 0:
                break
            ran = size
        print(
            f"limit {limit_mib} MiB {keys}: proposed micro-batch {proposed}, "
            f"largest that ran {ran}",
            flush=True,
        )


if __name__ == "__main__":
    against_the_instrument()
    largest()
