from mi300bench.strategies.ddp.buckets import bucket_caps, distinct_packings, one_bucket_mib
from mi300bench.units import MIB

SIZES = [30 * MIB, 2 * MIB, 2 * MIB, 40 * MIB]


def test_values_that_pack_alike_are_one_candidate() -> None:
    packings = distinct_packings(SIZES, ["default", 0.5, 1, 25, one_bucket_mib(SIZES)])
    assert [candidate.value for candidate in packings] == ["default", 0.5, one_bucket_mib(SIZES)]
    assert packings[0].same_as == (25,) and packings[1].same_as == (1,)


def test_the_default_comes_first_and_one_bucket_holds_all() -> None:
    caps = bucket_caps(SIZES, torch_version="2.13.0+cpu")
    assert caps[0] == "default" and one_bucket_mib(SIZES) * MIB > sum(SIZES)
    assert [1, 50] in caps


def test_lists_are_left_out_where_torch_does_not_take_them() -> None:
    assert not any(isinstance(cap, list) for cap in bucket_caps(SIZES, torch_version="2.9.1"))
