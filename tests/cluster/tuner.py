"""The tuner in a cluster of two namespaces: tuned against default on fresh runs, with ablations.

    python -m tests.cluster.tuner [FOLDER]

zaya1 `small`, one rank of one thread in each namespace, 1 gbit/s between them. The ranks are what
the cluster is, so they are not regrouped; layouts, experts, loss chunks, shapes and buckets are
weighed.
"""

import sys
import time
from pathlib import Path

from mi300bench.measurement.measure import measure, only_ok
from mi300bench.measurement.settings import Settings
from mi300bench.schema.record import Origin, World
from mi300bench.strategies.job import Job
from mi300bench.trainers.registry import spec_of
from mi300bench.tuning.autotune import measuring_plan
from mi300bench.tuning.result import write
from mi300bench.tuning.tune import tune

from tests.cluster.buckets import needed_points
from tests.cluster.namespaces import cluster

WORLD = World(device="cpu", ranks=2, threads=1)


def main(arguments: list[str]) -> int:
    """Print every side of the confirmation; 0 where the pick is not slower than the default."""
    folder = Path(arguments[0] if arguments else "runs/clusters")
    with cluster(rate_bits=1e9) as made:
        settings = Settings(
            store=folder,
            node="cluster",
            origin=Origin.EMULATED,
            source=made.says,
            launcher=made.launcher,
            say=lambda text: print(f"  {text}", flush=True),
        )
        spec = spec_of("zaya1")
        job = Job(spec=spec, config=spec.preset("small"), world=WORLD)
        start = time.monotonic()
        records = only_ok(
            measure(measuring_plan(job, needed_points(job), 1), settings), what="the tuner's curves"
        )
        print(f"  measured {len(records)} points in {time.monotonic() - start:.0f} s", flush=True)
        tuned = tune(job, records, settings)
        print(f"  decided after {time.monotonic() - start:.0f} s", flush=True)
    write(tuned.config, folder / "tuned.toml")
    confirmed = tuned.config.confirmed
    if confirmed is None:
        print("not confirmed")
        return 1
    for side in confirmed.sides:
        what = f"best without {side.reverts}" if side.reverts else side.label
        over = f", {side.over_best.as_ratio} of the best" if side.over_best else ""
        print(
            f"{what}: predicted {side.predicted_s.mid:.3f} s, "
            f"measured {side.measured_s.mid:.3f} s, {side.ratio.mid:.3f} "
            f"({side.ratio.low:.3f} to {side.ratio.high:.3f}) of the default, {side.verdict}{over}"
        )
    print(
        f"verdict on {confirmed.candidate}: {confirmed.verdict}; pick: "
        f"{ {k: c.value for k, c in tuned.config.choices.items() if c.value != c.default} }"
    )
    return 0 if confirmed.tuned_s.mid <= confirmed.default_s.high else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
