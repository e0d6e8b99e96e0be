from dataclasses import replace

from mi300bench.schema.doubt import FootprintInCache
from mi300bench.schema.record import Work
from tests.reports.example import copy, gemm

from mi300bench_reports.sections.roofline import roofline


def test_a_known_device_has_published_roofs(mi300x) -> None:
    section = roofline(mi300x)
    assert section is not None
    assert "5.30 TB/s" in section.sentences[0] and "bfloat16, published peak" in section.chart


def test_a_partition_has_not_the_roofs_of_the_whole_device(mi300x) -> None:
    partition = [
        replace(record, conditions={**record.conditions, "compute_units": 38}) for record in mi300x
    ]
    section = roofline(partition)
    assert section is not None
    assert "4.10 TB/s" in section.sentences[0] and "fastest measured" in section.chart


def test_an_unknown_device_has_the_fastest_measured_roofs(make_record) -> None:
    records = [gemm(make_record, 64, 64, k, 1e12) for k in (64, 128)]
    section = roofline([*records, copy(make_record, 2**28, 20e9)])
    assert section is not None
    assert "20.0 GB/s" in section.sentences[0] and "bfloat16, fastest measured" in section.chart


def test_operands_are_counted_where_a_record_has_no_bytes(make_record) -> None:
    records = [
        replace(record, work=Work(flop=record.work.flop))
        for record in (gemm(make_record, 64, 64, k, 1e12) for k in (64, 128))
    ]
    memory = copy(make_record, 2**28, 20e9)
    assert roofline([*records, memory]) is not None
    untyped = [
        replace(record, params={**record.params, "dtype": "of another world"}) for record in records
    ]
    assert roofline([*untyped, memory]) is None


def test_a_roof_needs_memory_that_left_the_cache_and_two_products(make_record) -> None:
    products = [gemm(make_record, 64, 64, k, 1e12) for k in (64, 128)]
    memory = copy(make_record, 2**28, 20e9)
    assert roofline(products) is None
    assert roofline([products[0], memory]) is None
    doubt = FootprintInCache(footprint_bytes=2**20, cache_bytes=2**25)
    assert roofline([*products, replace(memory, doubts=(doubt,))]) is None
