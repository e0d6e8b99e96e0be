"""Several drawn sides or ranks: a planted slow one is named, and like ones have no odd one."""

import numpy as np
import pytest
from mi300bench.comparison.medians import Side
from mi300bench.comparison.outliers import odd_ones, standings
from tests.comparison.drawn import Draw, side


def _nodes(draw: Draw, count: int, *, differ: float, slow: float) -> dict[str, Side]:
    levels = np.exp(draw.normal(0, differ, count)) * np.array([slow, *[1.0] * (count - 1)])
    return {
        f"n{i}": side(draw, 6, noise=0.005, slow=dict.fromkeys(range(6), float(level)))
        for i, level in enumerate(levels)
    }


@pytest.mark.parametrize("count", [3, 4, 8])
def test_nodes_alike_have_no_odd_one_and_a_slow_one_is_named(count: int) -> None:
    false = detected = 0
    for seed in range(60):
        draw = np.random.default_rng(seed)
        false += any(row.is_odd for row in odd_ones(_nodes(draw, count, differ=0.007, slow=1.0)))
        odd = [
            row.name for row in odd_ones(_nodes(draw, count, differ=0.005, slow=1.08)) if row.is_odd
        ]
        detected += odd == ["n0"]
    assert false <= 2 and detected >= 57


def test_nodes_that_differ_much_by_nature_are_rarely_called_odd() -> None:
    names = [
        odd_ones(_nodes(np.random.default_rng(seed), 8, differ=0.03, slow=1.0))
        for seed in range(60)
    ]
    assert sum(any(row.is_odd for row in rows) for rows in names) <= 9


def test_two_slow_nodes_of_eight_do_not_hide_each_other() -> None:
    draw = np.random.default_rng(5)
    nodes = _nodes(draw, 8, differ=0.003, slow=1.07)
    nodes["n4"] = side(draw, 6, noise=0.005, slow=dict.fromkeys(range(6), 1.09))
    assert [row.name for row in odd_ones(nodes) if row.is_odd] == ["n4", "n0"]


def test_a_node_with_other_points_does_not_hide_the_slow_one() -> None:
    draw = np.random.default_rng(6)
    nodes = _nodes(draw, 5, differ=0.003, slow=1.2)
    nodes["new"] = {f"q{key}": point for key, point in side(draw, 3).items()}
    rows = odd_ones(nodes)
    assert [row.name for row in rows if row.is_odd] == ["n0"] and "new" not in {
        row.name for row in rows
    }


def test_one_of_a_few_stands_out_upwards_and_where_asked_downwards() -> None:
    draw = np.random.default_rng(5)
    logs = [float(draw.normal(0, 0.005)) for _ in range(8)]
    assert not [row for row in standings(logs) if row.is_odd]
    (slow,) = [row for row in standings([*logs[:3], 0.08, *logs[4:]]) if row.is_odd]
    assert (
        slow.place == 3
        and slow.ratio.mid == pytest.approx(np.exp(0.08), abs=0.01)
        and slow.ratio.low > 1
    )
    # Of two values either may be the odd one.
    assert standings([]) == standings([0.1]) == standings([0.1, 0.9]) == []
    early = [*logs[:6], -0.5, logs[7]]
    assert not [row for row in standings(early) if row.is_odd]
    assert [row.place for row in standings(early, both_ways=True) if row.is_odd] == [6]
