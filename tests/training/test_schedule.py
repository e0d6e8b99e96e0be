"""The learning rate over a run."""

from fractions import Fraction
from itertools import pairwise

import pytest

from mi300bench_training.schedule import warmup_cosine


def rates(*, warmup_steps: int, steps: int, floor: Fraction) -> list[float]:
    return [
        warmup_cosine(step, peak=2.0, warmup_steps=warmup_steps, steps=steps, floor=floor)
        for step in range(steps + 3)
    ]


def test_the_rate_rises_to_its_peak_and_falls_to_its_floor() -> None:
    values = rates(warmup_steps=4, steps=12, floor=Fraction(1, 3))
    assert values[:4] == [0.5, 1.0, 1.5, 2.0] and values[4] == 2.0
    assert values[8] == pytest.approx(2 * (1 / 3 + 1 / 3))  # half of the way
    assert all(later < earlier for earlier, later in pairwise(values[4:13]))
    assert values[12:] == pytest.approx([2 / 3] * 3)


def test_without_a_warm_up_the_first_step_has_the_peak() -> None:
    assert rates(warmup_steps=0, steps=3, floor=Fraction(0))[0] == 2.0
    assert rates(warmup_steps=5, steps=3, floor=Fraction(0))[:3] == pytest.approx([0.4, 0.8, 1.2])


def test_optax_s_schedule_is_the_same_but_begins_at_zero() -> None:
    """The rate of the LoRA trainer is computed within its compiled step, so it is optax's."""
    optax = pytest.importorskip("optax")
    theirs = optax.warmup_cosine_decay_schedule(0.0, 2.0, 4, 12)
    ours = rates(warmup_steps=4, steps=12, floor=Fraction(0))
    assert [float(theirs(step)) for step in range(4)] == pytest.approx([0.0, *ours[:3]])
    assert [float(theirs(step)) for step in range(4, 12)] == pytest.approx(ours[4:12], abs=1e-6)
