from tests.reports.example import MI300X

from mi300bench_reports.peaks import published_peak, share_of_peak


def test_an_unknown_device_has_no_peak(make_record) -> None:
    assert published_peak(make_record(), "bfloat16") is None
    assert share_of_peak(1e12, None) == "no published peak"


def test_a_known_device_has_one(make_record) -> None:
    peak = published_peak(make_record(device=MI300X), "memory_bandwidth")
    assert peak is not None and peak.value == 5.3e12
    assert share_of_peak(2.65e12, peak).startswith("50% ")


def test_a_partition_of_a_device_has_not_the_peak_of_the_whole(make_record) -> None:
    partition = make_record(device=MI300X, conditions={"compute_units": 38})
    assert published_peak(partition, "memory_bandwidth") is None
