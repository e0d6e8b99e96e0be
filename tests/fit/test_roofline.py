import numpy as np
import pytest
from mi300bench.errors import RecordError
from mi300bench.fit.roofline import fit_memory, staircase
from mi300bench.schema.record import Work

MIB = 2**20


def groups(make_record, law, sizes):
    return [
        [
            make_record(
                "memory.copy",
                params={"bytes": s // 2, "variant": "op"},
                samples=(s / law(s),) * 5,
                work=Work(bytes_read=s),
            )
        ]
        for s in sizes
    ]


def test_planted_cache_knees_are_found(make_record) -> None:
    sizes = [2**k * 65536 for k in range(14)]
    noise = np.random.default_rng(1)

    def law(size: float) -> float:
        level = 400e9 if size <= MIB else 120e9 if size <= 32 * MIB else 25e9
        return level * noise.normal(1, 0.03)

    curve = fit_memory(groups(make_record, law, sizes))
    assert [round(level.bandwidth / 1e9, -1) for level in curve.levels] == [
        400,
        120,
        pytest.approx(20, abs=10),
    ]
    assert MIB < curve.knees[0] < 2 * MIB and 32 * MIB < curve.knees[1] < 64 * MIB
    assert curve.sustained == pytest.approx(25e9, rel=0.05)


def test_a_flat_curve_has_no_knee(make_record) -> None:
    noise = np.random.default_rng(2)
    curve = fit_memory(
        groups(make_record, lambda s: 25e9 * noise.normal(1, 0.03), [2**k * MIB for k in range(10)])
    )
    assert curve.knees == ()


def test_a_rise_out_of_call_overhead_is_no_knee(make_record) -> None:
    def law(size: float) -> float:
        return 20e9 if size < MIB else 150e9 if size <= 32 * MIB else 50e9

    (knee,) = fit_memory(groups(make_record, law, [2**k * 65536 for k in range(14)])).knees
    assert 32 * MIB < knee < 64 * MIB


def test_one_point_is_one_level() -> None:
    assert staircase(np.log(np.array([5.0]))) == [0]


def test_no_point_names_the_command_that_measures_one() -> None:
    with pytest.raises(RecordError) as caught:
        fit_memory([])
    assert "hbm" in caught.value.hint
