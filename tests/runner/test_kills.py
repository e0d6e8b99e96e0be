from pathlib import Path

import pytest
from mi300bench.schema.record import Outcome
from tests.runner.kills import study

# Enough that the sweep lasts longer than the moments of two kills.
POINTS = 24


@pytest.mark.torch
def test_a_killed_worker_costs_at_most_the_point_in_flight(tmp_path: Path) -> None:
    done, first, added, status = study(tmp_path, 2, POINTS)
    failed = [record for record in first if record.outcome is Outcome.FAILED]
    assert done == 2 and len(first) == POINTS and len(failed) <= 2
    assert all("rank 0" in r.reason or "while starting" in r.reason for r in failed)
    assert added == len(failed) and status == 0
