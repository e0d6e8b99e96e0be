"""Our product probe against torch.utils.benchmark.Timer, both hot and interleaved.

Ten shapes are drawn by seed.

``python -m tests.peers.gemm``
"""

import random
import statistics
import sys

import torch
from mi300bench import stats
from mi300bench.device.open import open_torch_device
from mi300bench.measurement.local_topology import cores
from mi300bench.probes.gemm import GemmProbe
from mi300bench.runner.group import Solo
from mi300bench.runner.timing import measure
from mi300bench.schema.plan import Stop
from mi300bench.schema.probe import RankContext
from torch.utils.benchmark import Timer

SEED, SHAPES, ROUNDS = 20_261_130, 10, 5
LIMIT = 0.05
STOP = Stop(relative_ci=0.01, max_seconds=0.6, warmup_seconds=0.1)


def shapes() -> list[tuple[int, int, int, str, str]]:
    """Return ten shapes, layouts and types, drawn before anything is measured."""
    draw = random.Random(SEED)
    sizes = [2**k + draw.choice((0, 0, 16)) for k in range(6, 12)]
    return [
        (
            *(draw.choice(sizes) for _ in range(3)),
            draw.choice(("nn", "nt", "tn")),
            draw.choice(("float32", "bfloat16")),
        )
        for _ in range(SHAPES)
    ]  # type: ignore[misc]


def main() -> int:
    """Print both medians and their ratio; 0 where all are within 5 %."""
    device = open_torch_device("cpu", threads=cores())
    context = RankContext(rank=0, ranks=1, device=device)
    worst = 0.0
    print("MxNxK            layout  type       Timer us    ours us   ratio")
    for m, n, k, layout, dtype in shapes():
        params = {
            "m": m,
            "n": n,
            "k": k,
            "layout": layout,
            "dtype": dtype,
            "cache": "hot",
            "inputs": "normal",
        }
        probe = GemmProbe(params, context)
        probe.prepare()
        timer = Timer(
            "torch.mm(a, b, out=c)",
            globals={"torch": torch, "a": probe.a, "b": probe.b, "c": probe.c},
            num_threads=cores(),
        )
        ours, theirs = [], []
        for index in range(2 * ROUNDS):
            if index % 4 in (0, 3):  # ABBA
                ours.append(stats.typical(measure(probe, device, STOP, Solo()).samples))
            else:
                theirs.append(timer.blocked_autorange(min_run_time=0.6).median)
        one, other = statistics.median(ours), statistics.median(theirs)
        worst = max(worst, abs(one / other - 1))
        print(
            f"{f'{m}x{n}x{k}':15}  {layout:6}  {dtype:8}  "
            f"{other * 1e6:9.1f}  {one * 1e6:9.1f}  {one / other:6.3f}"
        )
    print(f"largest difference {worst:.1%}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
