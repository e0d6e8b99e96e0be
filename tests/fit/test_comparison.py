"""Two sides, many sides, histories and ranks: from noise drawn by seed, with and without something planted."""

import numpy as np
import pytest
from mi300bench.fit.comparison import Medians, Side, compare, find_step, history, odd_ones, straggler
from mi300bench.stats import Verdict

POINTS = 200


def side(draw: np.random.Generator, *, noise: float = 0.01, drift: float = 0.005, slow: dict[int, float] | None = None) -> Side:
    """200 points of three processes each: every process scatters, and every point drifts between two runs of a machine."""
    found = {}
    for index in range(POINTS):
        middle = 1e-3 * (1 + index) * float(np.exp(draw.normal(0, drift))) * (slow or {}).get(index, 1.0)
        seconds = tuple(float(middle * np.exp(draw.normal(0, noise))) for _ in range(3))
        found[f"p{index}"] = Medians(family="gemm" if index % 2 else "memory", seconds=seconds, evidence=(f"r{index}",))
    return found


def test_runs_of_the_same_machine_give_few_false_alarms() -> None:
    alarms = 0
    for seed in range(10):
        draw = np.random.default_rng(seed)
        rows = compare(side(draw), side(draw))
        alarms += sum(row.verdict in (Verdict.SLOWER, Verdict.FASTER) for row in rows)
    assert alarms <= 0.05 * 10 * POINTS


def test_one_slower_point_of_two_hundred_is_found_and_comes_first() -> None:
    found = 0
    for seed in range(20):
        draw = np.random.default_rng(100 + seed)
        place = int(draw.integers(POINTS))
        rows = compare(side(draw), side(draw, slow={place: 1.07}))
        found += rows[0].key == f"p{place}" and rows[0].verdict is Verdict.SLOWER
    assert found >= 18


def test_a_machine_that_moved_whole_is_seen_as_such() -> None:
    draw = np.random.default_rng(1)
    rows = compare(side(draw), side(draw, slow=dict.fromkeys(range(POINTS), 1.10)))
    assert sum(row.verdict is Verdict.SLOWER for row in rows) > 0.95 * POINTS
    back = compare(side(draw, slow=dict.fromkeys(range(POINTS), 1.10)), side(draw))
    assert sum(row.verdict is Verdict.FASTER for row in back) > 0.95 * POINTS


def test_what_scatters_much_cannot_be_told_and_what_is_quiet_is_the_same() -> None:
    draw = np.random.default_rng(2)
    loud = compare(side(draw, noise=0.2), side(draw, noise=0.2))
    assert sum(row.verdict is Verdict.CANNOT_TELL for row in loud) > 0.9 * POINTS
    quiet = compare(side(draw, noise=0.001, drift=0.0005), side(draw, noise=0.001, drift=0.0005))
    assert sum(row.verdict is Verdict.SAME for row in quiet) > 0.95 * POINTS


def test_the_odd_one_among_eight_is_named_and_eight_alike_have_none() -> None:
    draw = np.random.default_rng(3)
    alike = {f"n{i}": side(draw) for i in range(8)}
    assert not [row for row in odd_ones(alike) if row.is_odd]
    slow = alike | {"n5": side(draw, slow=dict.fromkeys(range(1, POINTS, 2), 1.06))}
    odd = [row for row in odd_ones(slow) if row.is_odd]
    assert [(row.name, row.family) for row in odd] == [("n5", "gemm")] and odd[0].ratio.mid == pytest.approx(1.06, abs=0.01)


def test_a_step_in_a_history_is_placed_and_a_quiet_one_has_none() -> None:
    draw = np.random.default_rng(4)
    runs = [side(draw, slow=dict.fromkeys(range(POINTS), 1.05 if week >= 4 else 1.0)) for week in range(7)]
    step = find_step(history(runs))
    assert step is not None and step.at == 4 and step.ratio.mid == pytest.approx(1.05, abs=0.01)
    false = sum(find_step([float(np.exp(draw.normal(0, 0.01))) for _ in range(8)]) is not None for _ in range(200))
    assert false <= 4
    assert find_step([1.0, 1.0, 2.0]) is None and history([]) == []


def test_a_slow_rank_is_named_and_equal_ranks_are_not() -> None:
    draw = np.random.default_rng(5)
    samples = [[1 + float(draw.normal(0, 0.005)) for _ in range(9)] for _ in range(8)]
    assert straggler(samples) is None
    samples[3] = [1.08 * value for value in samples[3]]
    found = straggler(samples)
    assert found is not None and found[0] == 3 and found[1].mid == pytest.approx(1.08, abs=0.01)
    assert straggler(samples[:2]) is None
