"""Histories drawn at random: a planted step is dated, a drift is one, and noise is neither."""

import numpy as np
import pytest
from mi300bench.comparison.history import find_change, histories, noise_between
from mi300bench.comparison.noise import shared
from tests.comparison.drawn import side


def test_a_step_is_placed_a_drift_is_one_and_a_quiet_history_has_neither() -> None:
    draw = np.random.default_rng(4)
    runs = [
        side(draw, 200, slow=dict.fromkeys(range(200), 1.05 if week >= 4 else 1.0), families=2)
        for week in range(7)
    ]
    by_family = histories(runs)
    assert set(by_family) == {"f0", "f1"}
    step = find_change(by_family["f0"][1])
    assert (
        step is not None
        and not step.is_drift
        and step.at == 4
        and step.ratio.mid == pytest.approx(1.05, abs=0.01)
    )
    drift = find_change([float(np.exp(0.01 * week + draw.normal(0, 0.003))) for week in range(12)])
    assert (
        drift is not None
        and drift.is_drift
        and drift.ratio.mid == pytest.approx(np.exp(0.11), abs=0.02)
    )
    false = sum(
        find_change([float(v) for v in np.exp(draw.normal(0, 0.03, 8))]) is not None
        for _ in range(1500)
    )
    assert false <= 0.02 * 1500
    assert find_change([1.0, 1.0, 2.0]) is None and histories([]) == {}


def test_the_histories_of_others_show_how_much_runs_differ() -> None:
    """Five runs of one node are too few for that; those of eight nodes are enough."""
    draw, detected, false = np.random.default_rng(8), 0, 0
    for _ in range(60):
        nodes = [np.exp(draw.normal(0, 0.01, 5)) for _ in range(8)]
        nodes[0][2:] *= 1.06
        changes = []
        for place, own in enumerate(nodes):
            others = shared([noise_between(other) for at, other in enumerate(nodes) if at != place])
            changes.append(find_change(own, common=others))
        detected += changes[0] is not None and changes[0].at == 2
        false += any(change is not None for change in changes[1:])
    assert detected >= 45 and false <= 5


def test_a_run_with_other_points_does_not_erase_a_history() -> None:
    draw = np.random.default_rng(7)
    runs = [
        side(draw, 20, slow=dict.fromkeys(range(20), 1.08 if week >= 3 else 1.0))
        for week in range(6)
    ]
    other = {f"q{key}": point for key, point in side(draw, 5).items()}
    places, figures = histories([*runs[:2], other, *runs[2:]])["f0"]
    assert places == (0, 1, 3, 4, 5, 6)
    step = find_change(figures)
    assert step is not None and places[step.at] == 4
