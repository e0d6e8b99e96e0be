"""Our memory probe against a C/OpenMP STREAM in the same minutes: ``python -m tests.peers.memory``

Both move float32 arrays of 512 MiB with all cores; rounds alternate; medians are compared.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from mi300bench import stats
from mi300bench.measurement import plans
from mi300bench.measurement.local_topology import cores, local_topology
from mi300bench.runner.launch import ProcessWorker
from mi300bench.schema.plan import Stop
from mi300bench.units import MIB

ARRAY = 512 * MIB
ROUNDS = 3
PATTERNS = {"copy": 2, "scale": 2, "add": 3, "triad": 3}


def build(folder: Path, *flags: str) -> Path:
    """Return the compiled STREAM."""
    program = folder / "stream"
    subprocess.run(
        [
            "gcc",
            "-O3",
            *flags,
            "-fopenmp",
            "-o",
            str(program),
            str(Path(__file__).with_name("stream.c")),
        ],
        check=True,
    )
    return program


def stream(program: Path) -> dict[str, list[float]]:
    """Return the seconds of each pattern's iterations, the first one left out as the warm-up."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(cores()), "OMP_PROC_BIND": "true"}
    answer = subprocess.run(
        [str(program), str(ARRAY // 4), "8"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    rows = [line.split() for line in answer.stdout.splitlines()[1:]]
    return {pattern: [float(row[row.index(pattern) + 1]) for row in rows] for pattern in PATTERNS}


def main() -> int:
    """Print medians and ratios; 0 where each pattern's better variant reaches 0.90 of STREAM."""
    theirs: dict[str, list[float]] = {pattern: [] for pattern in PATTERNS}
    ours: dict[tuple[str, str], list[float]] = {}
    alone = local_topology("cpu", 1)
    stop = Stop(max_seconds=1.0, relative_ci=0.01)
    with tempfile.TemporaryDirectory() as name:
        program = build(Path(name), "-march=native")
        for _ in range(ROUNDS):
            for pattern, seconds in stream(program).items():
                theirs[pattern].append(statistics.median(seconds))
            worker = ProcessWorker(alone, {})
            try:
                for point in plans.memory_points(tuple(PATTERNS), [ARRAY], alone, stop=stop):
                    record = worker.measure(point)
                    key = (point.probe.removeprefix("memory."), str(point.params["variant"]))
                    ours.setdefault(key, []).append(stats.seconds_per_call(record))
            finally:
                worker.close()
    good = True
    print("pattern  STREAM GB/s     op GB/s  compiled GB/s  better / STREAM")
    for pattern, arrays in PATTERNS.items():
        rate = {
            name: arrays * ARRAY / statistics.median(ours[pattern, name]) / 1e9
            for name in ("op", "compiled")
        }
        peer = arrays * ARRAY / statistics.median(theirs[pattern]) / 1e9
        ratio = max(rate.values()) / peer
        good &= ratio >= 0.90
        print(
            f"{pattern:7}  {peer:11.2f}  {rate['op']:10.2f}  "
            f"{rate['compiled']:13.2f}  {ratio:15.3f}"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
