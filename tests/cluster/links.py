"""Do the probes recover a planted rate and a planted delay? ``python -m tests.cluster.links``

Rates: bandwidth fitted from messages beyond the token bucket's burst, against the TCP goodput of
the link. Delays: latency of 8 bytes over added one-way delay; its slope against the hops that
physics states.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from mi300bench import physics, stats
from mi300bench.fit.link import fit_link
from mi300bench.measurement import plans
from mi300bench.measurement.measure import measure, require_all_ok
from mi300bench.measurement.settings import Settings
from mi300bench.schema.plan import Stop
from mi300bench.schema.record import Origin, World
from mi300bench.store.select import by_point, select
from mi300bench.units import MIB

from tests.cluster.namespaces import Cluster, cluster

RATES = (0.5e9, 1e9, 4e9)
DELAYS_S = (0.0, 1e-3, 2e-3, 4e-3)
SIZES = (4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB, 64 * MIB)
RATE_STOP = Stop(relative_ci=0.01, min_samples=5, max_seconds=4.0)
DELAY_STOP = Stop(relative_ci=0.01, min_samples=7, max_seconds=2.0)
WORLD = World(device="cpu", ranks=2, threads=1)


def settings(made: Cluster, store: Path) -> Settings:
    """Return settings that measure in `made` and say so on every record."""
    return Settings(
        store=store,
        node="cluster",
        origin=Origin.EMULATED,
        source=made.says,
        launcher=made.launcher,
        passes=1,
    )


def rates(store: Path, out: object) -> bool:
    """Print fitted bandwidth against goodput for each rate; return whether all are within 5 %."""
    good = True
    print("rate gbit/s  op              fitted GB/s  goodput GB/s  ratio", file=out)
    for rate in RATES:
        with cluster(rate_bits=rate) as made:
            points = plans.collective_points(physics.COLLECTIVES, SIZES, [WORLD], stop=RATE_STOP)
            result = measure(
                plans.plan("the planted rate", points, passes=1), settings(made, store)
            )
            require_all_ok(result)
            for op in physics.COLLECTIVES:
                link = fit_link(list(by_point(select(result.records, f"collective.{op}")).values()))
                fitted = link.bandwidth * physics.busbw_factor(op, 2)
                ratio = fitted / made.goodput
                good &= abs(ratio - 1) <= 0.05
                print(
                    f"{rate / 1e9:11g}  {op:14}  {fitted / 1e9:11.4f}  "
                    f"{made.goodput / 1e9:12.4f}  {ratio:5.3f}",
                    file=out,
                )
    return good


def delays(store: Path, out: object) -> bool:
    """Print the slope of latency over delay against hops; return whether all are within 20 %."""
    seconds: dict[str, list[float]] = {op: [] for op in physics.COLLECTIVES}
    for delay in DELAYS_S:
        with cluster(rate_bits=1e9, delay_s=delay, has_relay=True) as made:
            points = plans.collective_points(physics.COLLECTIVES, [8], [WORLD], stop=DELAY_STOP)
            result = measure(
                plans.plan("the planted delay", points, passes=1), settings(made, store)
            )
            require_all_ok(result)
            for op in physics.COLLECTIVES:
                (record,) = select(result.records, f"collective.{op}")
                seconds[op].append(stats.seconds_per_call(record))
    good = True
    print("op              slope  hops  ratio  latencies ms", file=out)
    for op, latencies in seconds.items():
        slope, hops = (
            float(np.polyfit(DELAYS_S, latencies, 1)[0]),
            physics.hops(op, 2, backend="gloo"),
        )
        good &= abs(slope / hops - 1) <= 0.20
        shown = " ".join(f"{1e3 * s:.2f}" for s in latencies)
        print(f"{op:14}  {slope:5.2f}  {hops:4}  {slope / hops:5.3f}  {shown}", file=out)
    return good


def main() -> int:
    """Run both and return 0 where all is recovered."""
    with tempfile.TemporaryDirectory() as folder:
        return 0 if rates(Path(folder), sys.stdout) & delays(Path(folder), sys.stdout) else 1


if __name__ == "__main__":
    sys.exit(main())
