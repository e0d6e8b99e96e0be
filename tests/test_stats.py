import math
import random

import pytest
from mi300bench import stats
from mi300bench.schema.record import Outcome, Work
from mi300bench.stats import Verdict


def test_a_wrong_answer_has_no_speed(make_record) -> None:
    record = make_record(outcome=Outcome.WRONG_ANSWER, reason="off by one")
    with pytest.raises(ValueError, match=str(Outcome.WRONG_ANSWER)):
        stats.seconds_per_call(record)


def test_a_stall_does_not_move_the_estimate(make_record) -> None:
    assert stats.seconds_per_call(make_record(samples=(2.0, 2.0, 2.0, 90.0, 2.0))) == 2.0


def test_a_rate_is_work_over_median_time() -> None:
    assert stats.bandwidth(Work(bytes_read=100, bytes_written=50), 0.5) == 300
    assert stats.flop_rate(Work(flop=100), 0.5) == 200


def test_the_interval_is_over_processes() -> None:
    interval = stats.interval_over_processes([1.0, 1.02, 0.98])
    assert interval.low < 0.98 and interval.high > 1.02 and interval.mid == 1.0


def test_one_process_falls_back_to_the_spread_within_it(make_record) -> None:
    record = make_record(samples=(0.9, 1.0, 1.0, 1.0, 1.1))
    interval = stats.interval_of([record])
    assert interval.low < 1.0 < interval.high


def test_the_interval_of_the_median_covers_it_as_often_as_it_says() -> None:
    draw = random.Random(1)
    hits = 0
    for _ in range(400):
        samples = [draw.gauss(10, 1) for _ in range(25)]
        half = stats.relative_half_width(samples) * stats.typical(samples)
        hits += abs(stats.typical(samples) - 10) <= half
    assert hits / 400 > 0.93


def test_too_few_samples_give_no_interval() -> None:
    assert stats.relative_half_width([1.0, 1.0]) == math.inf


@pytest.mark.parametrize(
    ("second", "verdict"),
    [
        ([0.80, 0.81, 0.80, 0.79], Verdict.FASTER),
        ([1.20, 1.21, 1.20, 1.19], Verdict.SLOWER),
        ([1.001, 0.999, 1.002, 1.0], Verdict.SAME),
        ([0.98, 0.981, 0.979, 0.98], Verdict.SAME),  # beyond the noise, but not relevant
        ([0.7, 1.3, 0.8, 1.25], Verdict.CANNOT_TELL),
    ],
)
def test_a_comparison_has_four_answers(second: list[float], verdict: Verdict) -> None:
    assert stats.compare([1.0, 1.0, 1.0, 1.0], second).verdict is verdict


def test_runs_of_the_same_thing_are_rarely_called_different() -> None:
    draw = random.Random(2)
    alarms = 0
    for _ in range(300):
        first, second = ([draw.lognormvariate(0, 0.03) for _ in range(3)] for _ in range(2))
        alarms += stats.compare(first, second).verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert alarms / 300 <= 0.05


def test_unpaired_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="1 and 2"):
        stats.ratio_of_pairs([1.0], [1.0, 2.0])
