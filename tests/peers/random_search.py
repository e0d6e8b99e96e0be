"""The whole tuner against random search at the same budget, three seeds each.

    python -m tests.peers.random_search

Both choose among the same candidates of zaya1 `small` (layouts, experts, loss chunks, buckets) on
this machine. The tuner measures, predicts and confirms as `tune` does; random search runs
candidates drawn by seed once each until the same time is up, and takes the fastest. Then every pick
runs beside the default, interleaved on fresh processes; regret is over the best of them all.
"""

import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from mi300bench.measurement.local_topology import local_topology
from mi300bench.measurement.measure import measure
from mi300bench.measurement.settings import Settings
from mi300bench.schema.candidate import Candidate, combinations
from mi300bench.strategies.base import Space
from mi300bench.strategies.job import Job
from mi300bench.strategies.table import strategy_of
from mi300bench.trainers.registry import spec_of
from mi300bench.tuning.autotune import measuring_plan
from mi300bench.tuning.confirm import STEP_STOP, confirmation, seconds_by_round
from mi300bench.tuning.tune import tune

SEEDS, BUDGET_S, ROUNDS = (1, 2, 3), 200.0, 4
MEASURE_UNTIL = 0.5
RUN = replace(STEP_STOP, max_seconds=3.0)


def ours(job: Job, settings: Settings) -> tuple[Candidate, Space, float]:
    """Return the tuner's pick within the budget, its space, and the seconds it took."""
    start, strategy = time.monotonic(), strategy_of(job)
    limited = replace(settings, deadline=start + MEASURE_UNTIL * BUDGET_S)
    plans = [measuring_plan(job, stage.points, 1) for stage in strategy.stages(job)]
    parts = [measure(plan, limited) for plan in plans]
    records = [record for part in parts for record in part.records if record.outcome == "ok"]
    space = strategy.space(job, records, settings)
    tuned = tune(job, records, replace(settings, deadline=start + BUDGET_S))
    pick = tuned.arms[tuned.decision.pick].candidate if tuned.decision else space.default
    return pick, space, time.monotonic() - start


def at_random(job: Job, space: Space, settings: Settings, seed: int) -> tuple[Candidate, int]:
    """Return the fastest of candidates drawn by `seed` within the budget, and how many ran.

    Each runs once.
    """
    start, draw = time.monotonic(), random.Random(seed)
    strategy = strategy_of(job)
    every = [
        c
        for c in combinations(space.knobs, most=100_000)
        if strategy.is_possible(job, c) and space.memory.fits(c)
    ]
    best, fastest, count = space.default, float("inf"), 0
    while time.monotonic() - start < BUDGET_S:
        candidate = draw.choice(every)
        plan = confirmation(job.trainer, [strategy.step_point(job, candidate, RUN)], 1)
        table = seconds_by_round(plan, measure(plan, replace(settings, passes=1)))
        count += 1
        if table and table[0][0] < fastest:
            best, fastest = candidate, table[0][0]
    return best, count


def main() -> int:
    """Print picks, times and regrets."""
    folder = Path(tempfile.mkdtemp())
    spec = spec_of("zaya1")
    job = Job(
        spec=spec,
        config=spec.preset("small"),
        world=local_topology("cpu", 2),
        may_regroup=True,
        keep_shapes=True,
    )
    settings = Settings(store=folder, say=lambda text: print(f"  {text}", flush=True))
    picks: dict[str, Candidate] = {}
    for seed in SEEDS:
        pick, space, took = ours(job, replace(settings, store=folder / f"ours{seed}"))
        picks[f"ours {seed}"] = pick
        print(f"ours {seed}: {pick.label} in {took:.0f} s", flush=True)
        pick, count = at_random(
            job, space, replace(settings, store=folder / f"random{seed}", say=lambda _: None), seed
        )
        picks[f"random {seed}"] = pick
        print(f"random {seed}: {pick.label}, {count} runs in {BUDGET_S:.0f} s", flush=True)
    distinct = {"default": space.default} | {
        candidate.label: candidate for candidate in picks.values()
    }
    plan = confirmation(
        job.trainer,
        [strategy_of(job).step_point(job, each, STEP_STOP) for each in distinct.values()],
        ROUNDS,
    )
    table = seconds_by_round(plan, measure(plan, settings))
    seconds = {name: statistics.median(row) for name, row in zip(distinct, table, strict=True)}
    best = min(seconds.values())
    for name, row in zip(distinct, table, strict=True):
        print(f"{seconds[name]:.3f} s  {name}: {' '.join(f'{value:.3f}' for value in row)}")
    print(
        json.dumps(
            {who: round(seconds[pick.label] / best - 1, 4) for who, pick in picks.items()}
            | {"default": round(seconds["default"] / best - 1, 4)}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
