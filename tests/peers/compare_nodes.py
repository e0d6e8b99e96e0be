"""A slow node among eight, measured for real: found, and dated.

    python -m tests.peers.compare_nodes [--weeks 5]

This machine plays eight nodes, week after week: six large products, one process each. From the
third week on one node, drawn by seed, runs with a share of a core at which a product takes 6 %
longer. Weeks are dates that are written into the records afterwards; the times are measured. Needs
root, a kernel with the cpu controller, and the machine to itself.
"""

import argparse
import contextlib
import random
import sys
import tempfile
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

from mi300bench.comparison.outliers import odd_ones
from mi300bench.comparison.sides import dated_changes, side_of, split
from mi300bench.measurement import plans
from mi300bench.measurement.measure import measure
from mi300bench.measurement.settings import Settings
from mi300bench.schema.record import Measurement

from tests.peers.compare_alarms import LONG, products, typical
from tests.peers.slowed import calibrated, quota

NODES, SLOW_FROM, SLOWER = 8, 2, 1.06


def main() -> int:
    """Print who stands out and since when; 0 where that is the planted node and week."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--weeks", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    planted, points = (
        draw.randrange(NODES),
        products(6, draw, flop=1.6e10, stop=replace(LONG, max_seconds=0.6)),
    )
    records: list[Measurement] = []
    with tempfile.TemporaryDirectory() as name:
        share, error = calibrated(SLOWER, lambda: typical(points[0], Path(name) / "quota"))
        said = f"a product takes {SLOWER} of its time there (error {error:.3f})"
        print(
            f"node n{planted} has {share:.3f} of a core from week {SLOW_FROM} on: {said}",
            flush=True,
        )
        for week in range(options.weeks):
            for node in draw.sample(range(NODES), NODES):
                is_slow = node == planted and week >= SLOW_FROM
                with quota(share) if is_slow else contextlib.nullcontext():
                    plan = plans.plan("weekly", points, passes=1)
                    taken = measure(
                        plan, Settings(store=Path(name), node=f"n{node}", passes=1)
                    ).records
                day = date(2026, 10, 5) + timedelta(weeks=week)
                records += [
                    replace(r, run=f"{day}-n{node}", started_at=f"{day}T00:00:00+00:00")
                    for r in taken
                ]
    sides = {node: side_of(own) for node, own in split(records, "node").items()}
    odd = [row for row in odd_ones(sides) if row.is_odd]
    changes = [change for change in dated_changes(split(records, "node")) if change.ratio.mid > 1]
    for row in odd:
        print(f"stands out: {row.name}, {row.family}: {row.ratio.as_ratio}")
    for change in changes:
        print(change.sentence)
    expected = str(date(2026, 10, 5) + timedelta(weeks=SLOW_FROM))
    is_found = [row.name for row in odd] == [f"n{planted}"] and [
        (c.name, c.since) for c in changes
    ] == [(f"n{planted}", expected)]
    print("found and dated" if is_found else f"expected n{planted} since {expected}")
    return int(not is_found)


if __name__ == "__main__":
    sys.exit(main())
