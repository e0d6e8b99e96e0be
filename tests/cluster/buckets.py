"""Is the bucket that the tuner picks the best one? ``python -m tests.cluster.buckets [FOLDER]``

In each cluster: decide as autotune does (measure, fit, search, confirm), then measure every
distinct packing of the exhaustive set on fresh interleaved runs. Regret is the picked packing's
step over the best one's, minus 1. Predictions of exposed time (step minus computation) are made
before the exhaustive runs and held against them, beside a constant (the mean) and a straight line
in the number of buckets, both fitted to the very data (leave-one-out).
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from mi300bench import stats
from mi300bench.measurement.measure import measure, only_ok
from mi300bench.measurement.settings import Settings
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.record import Origin, World
from mi300bench.strategies.ddp.buckets import (
    BUCKET_KNOB,
    BUCKETS,
    CAPS_MIB,
    DEFAULT,
    distinct_packings,
    one_bucket_mib,
)
from mi300bench.strategies.job import Job
from mi300bench.strategies.table import strategy_of
from mi300bench.trainers.registry import spec_of
from mi300bench.tuning.autotune import measuring_plan
from mi300bench.tuning.confirm import confirmation, seconds_by_round
from mi300bench.tuning.result import Tuned
from mi300bench.tuning.search import Ranked
from mi300bench.tuning.tune import tune
from scipy.stats import t as student

from tests.cluster.namespaces import Cluster, cluster

# (bit/s, one-way delay in seconds)
CLUSTERS = ((1e9, 0.0), (4e9, 0.0), (1e9, 2e-3))
ROUNDS = 2
# DDP rebuilds its buckets before the second step; two pass before a sample (one checked, one to
# warm up).
STOP = Stop(
    relative_ci=0.02, min_samples=3, max_seconds=1.0, warmup_seconds=0.0, min_warmup_calls=1
)
WORLD = World(device="cpu", ranks=2, threads=1)


def needed_points(job: Job) -> list[Point]:
    """Return what the choice rests on: the points of all stages but the report's, which is last."""
    return [point for stage in strategy_of(job).stages(job)[:-1] for point in stage.points]


def decided(job: Job, settings: Settings) -> tuple[Tuned, float]:
    """Return the tuned config and the seconds it took to get it."""
    start = time.monotonic()
    measured = measure(measuring_plan(job, needed_points(job), 1), settings)
    tuned = tune(job, only_ok(measured, what="buckets"), settings)
    return tuned, time.monotonic() - start


def exhaustive(
    job: Job, tuned: Tuned, settings: Settings
) -> tuple[list[Ranked], list[list[float]], float]:
    """Return every distinct packing and the pick, seconds by round, and the time it took."""
    start = time.monotonic()
    sizes = tuned.step_model.timeline.gradient_bytes
    pick = tuned.config.choices[BUCKETS].value
    values = ["default", *CAPS_MIB, one_bucket_mib(sizes), pick]
    wanted = [candidate.value for candidate in distinct_packings(sizes, values)]
    rows = [next(row for row in tuned.ranked if stands_for(row, value)) for value in wanted]
    strategy = strategy_of(job)
    points = [strategy.step_point(job, row.candidate, STOP) for row in rows]
    plan = confirmation(job.trainer, points, ROUNDS)
    table = seconds_by_round(plan, measure(plan, settings))
    return rows, table, time.monotonic() - start


def stands_for(row: Ranked, value: object) -> bool:
    """Return whether `value` is this packing, or one that packs alike."""
    return (
        value == row.candidate.keys.get(BUCKETS, DEFAULT)
        or value in row.candidate.options[BUCKET_KNOB].same_as
    )


def leave_one_out(x: Sequence[float], y: Sequence[float], degree: int) -> list[float]:
    """Return each y predicted by a polynomial through all the others."""
    predicted = []
    for index in range(len(y)):
        rest = [i for i in range(len(y)) if i != index]
        fitted = np.polyfit([x[i] for i in rest], [y[i] for i in rest], degree)
        predicted.append(float(np.polyval(fitted, x[index])))
    return predicted


def pooled_interval(table: Sequence[Sequence[float]], ratio: float) -> tuple[float, float]:
    """Return the interval of a ratio of two rows' medians, with the noise of all rows pooled.

    Two rounds of two packings say little of the noise; the rounds of all packings say enough.
    """
    logs = np.log(np.array(table))
    freedom = logs.size - len(logs)
    noise = float(np.sqrt(((logs - logs.mean(axis=1, keepdims=True)) ** 2).sum() / freedom))
    half = float(student.ppf(0.975, freedom)) * noise * (2 / logs.shape[1]) ** 0.5
    return ratio * float(np.exp(-half)), ratio * float(np.exp(half))


def median_error(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Return the median relative error."""
    return float(np.median([abs(p / m - 1) for p, m in zip(predicted, measured, strict=True)]))


def study(made: Cluster, folder: Path) -> dict[str, object]:
    """Return the figures of one cluster, and print them."""
    settings = Settings(
        store=folder,
        node="cluster",
        origin=Origin.EMULATED,
        source=made.says,
        launcher=made.launcher,
        say=lambda text: print(f"  {text}", flush=True),
    )
    spec = spec_of("zaya1")
    job = Job(spec=spec, config=spec.preset("small"), world=WORLD, only=(BUCKET_KNOB,))
    print(made.says, flush=True)
    tuned, decide_s = decided(job, settings)
    rows, table, exhaustive_s = exhaustive(job, tuned, replace(settings, passes=ROUNDS))
    compute = tuned.step_model.timeline.compute_s
    steps = [stats.typical(row) for row in table]
    pick = next(
        i for i, row in enumerate(rows) if stands_for(row, tuned.config.choices[BUCKETS].value)
    )
    best = int(np.argmin(steps))
    regret = steps[pick] / steps[best]
    bounds = pooled_interval(table, regret)
    over_default = steps[pick] / steps[0]
    exposed = [step - compute for step in steps]
    predicted = [row.simulated.exposed_s for row in rows]
    buckets = [float(len(row.simulated.transfers)) for row in rows]
    result = {
        "cluster": made.says,
        "pick": rows[pick].candidate.label,
        "best": rows[best].candidate.label,
        "confirmed": asdict(tuned.config.confirmed.ratio) if tuned.config.confirmed else None,
        "verdict": str(tuned.config.confirmed.verdict)
        if tuned.config.confirmed
        else "not confirmed",
        "regret": regret - 1,
        "regret_interval": [bounds[0] - 1, bounds[1] - 1],
        "pick_over_default": [over_default, *pooled_interval(table, over_default)],
        "exposed_error": median_error(predicted, exposed),
        "constant_error": median_error(leave_one_out(buckets, exposed, 0), exposed),
        "line_error": median_error(leave_one_out(buckets, exposed, 1), exposed),
        "compute_s": compute,
        "decide_s": decide_s,
        "exhaustive_s": exhaustive_s,
        "rows": [
            {
                "cap": r.candidate.label,
                "buckets": b,
                "predicted": r.simulated.step_s,
                "measured": row,
            }
            for r, b, row in zip(rows, buckets, table, strict=True)
        ],
    }
    for r, row, seconds in zip(rows, table, steps, strict=True):
        rounds = " ".join(f"{value:.3f}" for value in row)
        print(
            f"  {r.candidate.label:>10} MiB {len(r.simulated.transfers):4} buckets  predicted "
            f"{r.simulated.step_s:.3f}  measured {seconds:.3f}  ({rounds})",
            flush=True,
        )
    shown = {key: value for key, value in result.items() if key != "rows"}
    print(json.dumps(shown, indent=1), flush=True)
    return result


def main(arguments: list[str]) -> int:
    """Study every cluster; 0 where in all regret is at most 3 % and predictions are within 25 %."""
    folder = Path(arguments[0] if arguments else "runs/clusters")
    results = []
    for rate, delay in CLUSTERS:
        with cluster(rate_bits=rate, delay_s=delay) as made:
            results.append(study(made, folder))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "buckets.json").write_text(json.dumps(results, indent=1))
    return 0 if all(r["regret"] <= 0.03 and r["exposed_error"] <= 0.25 for r in results) else 1  # type: ignore[operator]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
