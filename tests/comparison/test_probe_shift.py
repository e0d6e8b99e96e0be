"""Whole probes between two drawn sides: false alarms are rare, and planted shifts are detected."""

from collections.abc import Callable

import numpy as np
import pytest
from mi300bench.comparison.medians import Side
from mi300bench.comparison.points import compare
from mi300bench.comparison.probe_shift import probe_shifts
from mi300bench.stats import Verdict
from tests.comparison.drawn import CHANGED, NOTHING_PLANTED, Draw, side


def shift_alarms(make: Callable[[Draw], tuple[Side, Side]], trials: int = 100) -> float:
    """Return the share of comparisons in which a probe as a whole was called changed."""
    return (
        sum(
            any(row.verdict in CHANGED for row in probe_shifts(*make(np.random.default_rng(seed))))
            for seed in range(trials)
        )
        / trials
    )


@pytest.mark.slow
def test_a_probe_is_not_called_changed_for_what_moves_all_of_its_points_in_every_run() -> None:
    assert max(shift_alarms(make) for make in NOTHING_PLANTED.values()) <= 0.06
    known = {"noise": 0.005, "common": 0.02, "earlier": 5}
    assert shift_alarms(lambda d: (side(d, 40, **known), side(d, 40, **known))) <= 0.04
    slow = dict.fromkeys(range(40), 1.08)
    detected = {
        "by its processes": shift_alarms(
            lambda d: (side(d, 40, together=0.005), side(d, 40, together=0.005, slow=slow))
        ),
        "by runs before": shift_alarms(
            lambda d: (side(d, 40, common=0.01, earlier=5), side(d, 40, common=0.01, slow=slow))
        ),
    }
    assert min(detected.values()) >= 0.8, detected
    # One process does not show what moves all of its points. They are still compared with each
    # other.
    one = (
        side(np.random.default_rng(1), 40, processes=1),
        side(np.random.default_rng(2), 40, processes=1, slow={**slow, 7: 2.0}),
    )
    (shift,) = probe_shifts(*one)
    assert shift.verdict is Verdict.CANNOT_TELL and shift.ratio.low == shift.ratio.high
    assert [row.key for row in compare(*one) if row.verdict in CHANGED] == ["p7"]


def test_a_machine_that_moved_whole_is_seen_as_such() -> None:
    draw = np.random.default_rng(1)
    slow = dict.fromkeys(range(200), 1.10)
    assert (
        sum(
            row.verdict is Verdict.SLOWER
            for row in compare(side(draw, 200), side(draw, 200, slow=slow))
        )
        > 190
    )
    assert (
        sum(
            row.verdict is Verdict.FASTER
            for row in compare(side(draw, 200, slow=slow), side(draw, 200))
        )
        > 190
    )
    (shift,) = probe_shifts(side(draw, 200), side(draw, 200, slow=slow))
    assert shift.verdict is Verdict.SLOWER and shift.ratio.mid == pytest.approx(1.10, abs=0.01)


GRADED = {index: 1 + 0.2 * index / 39 for index in range(40)}


def test_changes_of_many_sizes_show_in_the_whole_and_with_earlier_runs_in_each_point() -> None:
    """Their scatter looks like noise, unless earlier runs show how large the noise is."""
    draw = np.random.default_rng(2)
    before, after = side(draw, 40, noise=0.005), side(draw, 40, noise=0.005, slow=GRADED)
    assert not [row for row in compare(before, after) if row.verdict in CHANGED]
    (shift,) = probe_shifts(before, after)
    assert shift.verdict is Verdict.SLOWER and shift.ratio.mid == pytest.approx(1.10, abs=0.02)
    (half,) = probe_shifts(before, side(draw, 40, noise=0.005, slow=dict.fromkeys(range(20), 1.3)))
    assert half.verdict is Verdict.SLOWER
    known = side(draw, 40, noise=0.005, earlier=3)
    assert sum(row.verdict is Verdict.SLOWER for row in compare(known, after)) >= 30
    quiet = [
        probe_shifts(side(d, 40, drift=0.02), side(d, 40, drift=0.02))[0].verdict
        for d in map(np.random.default_rng, range(100))
    ]
    assert sum(verdict in CHANGED for verdict in quiet) <= 3
