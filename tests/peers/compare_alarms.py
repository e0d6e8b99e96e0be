"""False alarms of comparing a machine with itself, and whether a point slowed by 5 % is found.

    python -m tests.peers.compare_alarms [--points 200] [--trials 10]

False alarms: 200 small products, measured twice, three processes each. Planted: eight large
products, of which one, drawn by seed, has a share of a core (`tests.peers.slowed`) while it is
measured among the others. Needs root and the machine to itself.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
from pathlib import Path

from mi300bench import stats
from mi300bench.comparison.medians import Side
from mi300bench.comparison.points import compare
from mi300bench.comparison.sides import side_of
from mi300bench.measurement import plans
from mi300bench.measurement.measure import measure
from mi300bench.measurement.settings import Settings
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.record import World
from mi300bench.stats import Verdict

from tests.peers.slowed import Group, calibrated, group
from tests.runner.kills import worker_of

ALONE = World(device="cpu", ranks=1, threads=1)
QUICK = Stop(
    relative_ci=0.02, min_samples=7, max_seconds=0.1, warmup_seconds=0.02, min_warmup_calls=1
)
LONG = Stop(
    relative_ci=0.01, min_samples=5, max_seconds=1.0, warmup_seconds=0.0, min_warmup_calls=1
)
PLANTED = 1.05


def side(points: list[Point], store: Path) -> Side:
    """Measure points in three processes each."""
    plan = plans.plan("alarms", points, passes=3)
    return side_of(measure(plan, Settings(store=store, node="here", passes=3)).records)


def with_one_slowed(points: list[Point], store: Path, place: int, share: float) -> Side:
    """Measure points as `side` does, the one at `place` with a share of a core.

    It is held from the record before it to its own.
    """
    done = threading.Event()
    earlier = set(store.rglob("*.jsonl"))

    def watch(own: Group) -> None:
        is_held, added = False, set[int]()
        while not done.wait(0.01):
            new = next(iter(set(store.rglob("*.jsonl")) - earlier), None)
            taken = new.read_bytes().count(b'"probe"') if new else -1
            wanted = taken >= 0 and taken % len(points) == place
            worker = worker_of(os.getpid()) if wanted else None
            if (
                worker is not None and worker not in added
            ):  # each pass has its own; what watches it must not take of its share
                added.add(worker)
                own.add(worker)
            if wanted != is_held:
                own.hold(share if wanted else None)
                is_held = wanted

    with group() as own:
        watcher = threading.Thread(target=watch, args=(own,))
        watcher.start()
        try:
            return side(points, store)
        finally:
            done.set()
            watcher.join()


def typical(point: Point, store: Path) -> float:
    """Return the median seconds of a point in one fresh process."""
    (record,) = measure(
        plans.plan("quota", [point], passes=1), Settings(store=store, node="here", passes=1)
    ).records
    return stats.seconds_per_call(record)


def products(count: int, draw: random.Random, *, flop: float, stop: Stop) -> list[Point]:
    """Return products of about so many FLOP, of shapes drawn by seed."""
    shapes: set[tuple[int, int, int]] = set()
    while len(shapes) < count:
        m, n = (draw.randrange(8, 33) * 32 for _ in range(2))
        shapes.add((m, n, max(8, round(flop / 2 / m / n / 8) * 8)))
    return plans.gemm_points(sorted(shapes), ALONE, dtypes=["float32"], stop=stop)


def main() -> int:
    """Print both figures; 0 where alarms are at most 5 % and nine in ten points are found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--trials", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        store = Path(name)
        draw = random.Random(1)
        small = products(options.points, draw, flop=2e8, stop=QUICK)
        rows = compare(side(small, store), side(small, store))
        alarms = [row for row in rows if row.verdict in (Verdict.SLOWER, Verdict.FASTER)]
        same = sum(row.verdict is Verdict.SAME for row in rows)
        print(
            f"the same machine twice: {len(alarms)} of {len(rows)} points called changed, "
            f"{same} the same",
            flush=True,
        )
        large = products(8, draw, flop=1.6e10, stop=LONG)
        share, error = calibrated(PLANTED, lambda: typical(large[0], store))
        print(
            f"a share of {share:.3f} of a core makes a product take {PLANTED} of its time "
            f"(error {error:.3f})",
            flush=True,
        )
        base, found = side(large, store), 0
        for trial in range(options.trials):
            place = draw.randrange(len(large))
            rows = compare(base, with_one_slowed(large, store, place, share))
            slow = list(base)[place]
            first = rows[0]
            hit = first.verdict is Verdict.SLOWER and first.key == slow
            found += hit
            row = next(row for row in rows if row.key == slow)
            others = sum(r.verdict is Verdict.SLOWER for r in rows if r.key != slow)
            print(
                f"trial {trial}: planted point {row.ratio.as_ratio}, "
                f"{'found' if hit else 'missed'}; {others} others called slower",
                flush=True,
            )
    print(f"{found} of {options.trials} planted points were found and stand first")
    return int(len(alarms) > 0.05 * options.points or found < 0.9 * options.trials)


if __name__ == "__main__":
    sys.exit(main())
