import numpy as np
import pytest
from mi300bench.errors import RecordError
from mi300bench.fit.link import fit_link
from mi300bench.schema.doubt import OutOfRange
from mi300bench.schema.record import Work

SIZES = [8, 1024, 65536, 2**20, 2**22, 2**24, 2**26, 2**28]


def groups(make_record, law, sizes=SIZES):
    return [
        [
            make_record(
                "collective.all_reduce",
                params={"bytes": s},
                ranks=2,
                samples=(law(s),) * 5,
                work=Work(message_bytes=s),
            )
        ]
        for s in sizes
    ]


def test_latency_bandwidth_and_knee_of_a_planted_link(make_record) -> None:
    link = fit_link(groups(make_record, lambda s: 50e-6 + s / 2e9))
    assert link.latency_s == pytest.approx(50e-6, rel=1e-6)
    assert link.bandwidth == pytest.approx(2e9, rel=1e-6)
    assert link.knee_bytes == pytest.approx(1e5, rel=1e-5)
    assert link.kink_bytes is None


def test_a_change_of_algorithm_is_found_and_does_not_bend_the_bandwidth(make_record) -> None:
    link = fit_link(
        groups(make_record, lambda s: 20e-6 + s / 8e9 if s < 2**22 else 500e-6 + s / 1e9)
    )
    assert link.kink_bytes == 2**22
    assert link.latency_s == pytest.approx(20e-6, rel=1e-3)
    assert link.bandwidth == pytest.approx(1e9, rel=1e-3)


def test_noise_of_two_percent_moves_the_bandwidth_little(make_record) -> None:
    noise = np.random.default_rng(3)
    link = fit_link(groups(make_record, lambda s: (50e-6 + s / 2e9) * noise.normal(1, 0.02)))
    assert link.bandwidth == pytest.approx(2e9, rel=0.05)


def test_inside_the_range_the_prediction_follows_the_medians(make_record) -> None:
    def law(size: float) -> float:
        return 50e-6 + size / 2e9

    link = fit_link(groups(make_record, law))
    for size in SIZES:
        assert link.seconds_of(size) == pytest.approx(law(size))
    prediction = link.predict(3 * 2**24)
    assert (
        prediction.value.low <= law(3 * 2**24) <= prediction.value.high and prediction.doubts == ()
    )


def test_outside_the_range_it_extrapolates_and_says_so(make_record) -> None:
    link = fit_link(groups(make_record, lambda s: 50e-6 + s / 2e9))
    prediction = link.predict(2**30)
    assert isinstance(prediction.doubts[0], OutOfRange)
    assert prediction.value.mid == pytest.approx(50e-6 + 2**30 / 2e9, rel=1e-6)
    assert link.predict(1).value.mid > 0


def test_the_held_out_error_is_that_of_a_point_left_out(make_record) -> None:
    straight = fit_link(groups(make_record, lambda s: s / 1e9))
    assert straight.typical_error < 1e-6
    bent = fit_link(groups(make_record, lambda s: s / 1e9 * (2 if s == 2**22 else 1)))
    assert bent.errors[SIZES.index(2**22) - 1] == pytest.approx(0.5, rel=1e-6)


def test_two_sizes_are_no_curve(make_record) -> None:
    with pytest.raises(RecordError, match=r"3 message sizes.* 2"):
        fit_link(groups(make_record, lambda s: 1.0, SIZES[:2]))


def test_a_time_that_does_not_grow_is_no_link(make_record) -> None:
    with pytest.raises(RecordError, match="64 bytes"):
        fit_link(groups(make_record, lambda s: 1.0 / (1 + s), [8, 16, 32, 64]))


def test_concurrency_is_what_two_at_once_gain(make_record) -> None:
    def pair(gain):
        record = make_record(
            "collective.all_reduce",
            params={"bytes": 2**24, "inflight": 2},
            ranks=2,
            samples=(2 * (50e-6 + 2**24 / 2e9) / gain,) * 5,
            work=Work(message_bytes=2**25),
        )
        return [[record]]

    law = groups(make_record, lambda s: 50e-6 + s / 2e9)
    assert fit_link(law).concurrency == 1.0
    for planted, fitted in ((1.3, 1.3), (0.9, 1.0), (3.0, 2.0)):
        assert fit_link(law, pairs=pair(planted)).concurrency == pytest.approx(fitted)


def test_the_fit_names_its_records(make_record) -> None:
    made = groups(make_record, lambda s: 50e-6 + s / 2e9)
    assert set(fit_link(made).evidence) == {passes[0].id for passes in made}
