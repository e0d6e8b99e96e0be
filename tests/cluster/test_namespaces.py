"""Two namespaces are a cluster: bytes cross the shaped link, and records say what it is."""

from pathlib import Path

import pytest
from mi300bench import stats
from mi300bench.measurement import plans
from mi300bench.measurement.measure import measure, require_all_ok
from mi300bench.schema.plan import Stop
from mi300bench.schema.record import Origin
from mi300bench.units import MIB

from tests.cluster.links import WORLD, settings
from tests.cluster.namespaces import BURST_BYTES, PREFIX, cluster

pytestmark = [pytest.mark.cluster, pytest.mark.torch]
STOP = Stop(min_samples=3, max_seconds=0.5, warmup_seconds=0.0)


@pytest.mark.parametrize(("rate", "delay"), [(0.5e9, 0.0), (1e9, 2e-3)])
def test_no_message_is_faster_than_the_planted_link(
    tmp_path: Path, rate: float, delay: float
) -> None:
    with cluster(rate_bits=rate, delay_s=delay) as made:
        points = plans.collective_points(["all_reduce"], [8, 8 * MIB], [WORLD], stop=STOP)
        result = measure(
            plans.plan("does it cross the link?", points, passes=1), settings(made, tmp_path)
        )
    require_all_ok(result)
    small, large = (stats.seconds_per_call(record) for record in result.records)
    assert small >= 2 * delay
    assert large >= (8 * MIB - BURST_BYTES) / made.goodput
    assert all(r.origin is Origin.EMULATED and "namespaces" in r.source for r in result.records)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with cluster(rate_bits=1e9) as made:
        assert all(Path(f"/var/run/netns/{name}").exists() for name in made.namespaces)
    assert not any(Path(f"/var/run/netns/{name}").exists() for name in made.namespaces)
    assert PREFIX not in Path("/proc/net/route").read_text()
