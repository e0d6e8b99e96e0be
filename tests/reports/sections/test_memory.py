from mi300bench.schema.record import Work
from tests.reports.example import copy

from mi300bench_reports.sections.memory import memory


def test_each_pattern_has_a_rate_and_a_knee(records) -> None:
    section = memory(records)
    assert section is not None and section.chart
    (sentence,) = section.sentences
    assert sentence.startswith("copy (op): 20.0 GB/s") and "8 MiB" in sentence
    assert "no published peak" in sentence
    assert len(section.evidence) == 4


def test_a_known_device_is_compared_with_its_peak(mi300x) -> None:
    section = memory(mi300x)
    assert section is not None and section.chart == ""  # one size makes no curve
    assert "4.10 TB/s" in section.sentences[0] and "77%" in section.sentences[0]


def test_the_cache_is_marked(make_record) -> None:
    conditions = {"cache_bytes": 2**25}
    records = [copy(make_record, size, 1e10, conditions=conditions) for size in (2**20, 2**30)]
    section = memory(records)
    assert section is not None and "last-level cache" in section.chart


def test_variants_that_differ_are_a_doubt(make_record) -> None:
    records = [
        copy(make_record, size, rate, params={"bytes": size, "variant": variant})
        for variant, rate in (("op", 40e9), ("triton", 60e9))
        for size in (2**24, 2**28)
    ]
    section = memory(records)
    assert section is not None
    assert section.sentences[-1].startswith("copy at 512 MiB") and "triton" in section.sentences[-1]


def test_rows_are_a_table(make_record) -> None:
    record = make_record(
        "memory.gather",
        params={"bytes": 2**26, "row_bytes": 4096, "variant": "op"},
        samples=(0.01,) * 5,
        work=Work(bytes_read=1e8, bytes_written=1e8),
    )
    section = memory([record])
    assert section is not None and section.table is not None and section.chart == ""
    assert section.table.rows == (("gather", "64 MiB", "4096 B", "op", "20.0 GB/s"),)


def test_a_machine_without_memory_records_has_no_section(make_record) -> None:
    assert memory([make_record("gemm")]) is None
