import pytest
from mi300bench.errors import RecordError
from mi300bench.fit.overlap import fit_overlap
from mi300bench.schema.record import Work


def record(make_record, *, alone, collective, beside, both):
    series = {
        "compute_alone_s": alone,
        "collective_alone_s": collective,
        "compute_beside_s": beside,
        "both_s": both,
    }
    return make_record(
        "overlap",
        params={"bytes": 2**20},
        ranks=2,
        series={k: (v,) * 3 for k, v in series.items()},
        work=Work(message_bytes=2 * 2**20),
    )


def test_planted_slow_downs_come_out(make_record) -> None:
    # Products of 0.7 s slowed down by 1.5 take 1.05 s. In that time an all-reduce slowed down by 2
    # does 0.525 s of its 1.0 s.
    model = fit_overlap(
        [[record(make_record, alone=0.7, collective=1.0, beside=1.05, both=1.05 + 0.475)]]
    )
    assert model.compute == pytest.approx(1.5) and model.collective == pytest.approx(2.0)
    assert model.by_size == ((2**20, pytest.approx(1.5), pytest.approx(2.0)),)


def test_free_overlap_is_one_and_never_less(make_record) -> None:
    model = fit_overlap([[record(make_record, alone=0.7, collective=1.0, beside=0.69, both=1.0)]])
    assert model.compute == 1.0 and model.collective == 1.0


def test_an_all_reduce_that_stood_still_is_capped(make_record) -> None:
    model = fit_overlap([[record(make_record, alone=0.7, collective=1.0, beside=1.0, both=2.0)]])
    assert model.collective == 10.0


def test_no_record_names_the_command() -> None:
    with pytest.raises(RecordError) as caught:
        fit_overlap([])
    assert "mi300bench overlap" in caught.value.hint
