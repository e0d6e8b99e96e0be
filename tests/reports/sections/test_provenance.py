from mi300bench.schema.doubt import FewPasses
from mi300bench.schema.record import Outcome, Work

from mi300bench_reports.sections import provenance


def test_each_kind_of_doubt_is_one_row_with_a_count(make_record) -> None:
    records = [
        make_record(params={"bytes": size}, doubts=(FewPasses(passes=size),)) for size in (1, 2)
    ]
    section = provenance.doubts([*records, make_record()])
    assert section is not None and section.table is not None
    (row,) = section.table.rows
    assert row[1:] == ("2", records[0].id)
    assert section.table.keys == ((row[0], 2, records[0].id),)
    assert provenance.doubts([make_record()]) is None


def test_a_failed_point_has_its_reason(make_record) -> None:
    failed = make_record(outcome=Outcome.FAILED, reason="it broke", samples=())
    readings = make_record("telemetry", outcome=Outcome.SKIPPED, reason="a series", samples=())
    section = provenance.failures([make_record("gemm"), failed, readings])
    assert section is not None and section.table is not None
    assert section.table.rows == (("memory.copy", "bytes=1024", "failed", "it broke", failed.id),)


def test_conditions_that_vary_have_all_their_values(make_record) -> None:
    records = [
        make_record(
            params={"bytes": index},
            conditions={"backend": f"b{index}", "line": index, "driver": ""},
            variables={"HSA_XNACK": "1"},
        )
        for index in range(6)
    ]
    section = provenance.conditions(records)
    assert section.table is not None
    values = dict(section.table.rows)
    assert list(values) == ["HSA_XNACK", "backend", "threads and ranks"]
    assert values["HSA_XNACK"] == "1"
    assert values["backend"].startswith("b0; b1; b2; b3; ") and "2 more" in values["backend"]


def test_the_commands_name_the_config_and_a_record(records, config) -> None:
    section = provenance.reproduce(records, config)
    assert section.code.startswith("mi300bench tune zaya1\n")
    assert f"sweep again {records[0].id}" in section.code
    assert records[0].id in provenance.reproduce(records, None).code


def test_a_point_has_its_interval_samples_and_records(make_record) -> None:
    passes = [
        make_record(samples=(value,) * 5, pass_index=index, id=f"r{index}")
        for index, value in enumerate((1.0, 1.1, 1.2))
    ]
    section = provenance.all_points(passes)
    assert section.table is not None
    (row,) = section.table.rows
    assert row[:4] == ("memory.copy", "bytes=1024", "1", "1.10 s")
    assert row[5:] == ("15", "r0 r1 r2")
    assert section.table.keys[0][3] == 1.1


def test_a_page_holds_the_newest_points_of_a_large_store(make_record) -> None:
    records = [
        make_record(params={"bytes": index}, run=f"r{index:03d}", work=Work(bytes_read=1.0))
        for index in range(30)
    ]
    whole, cut = provenance.all_points(records), provenance.all_points(records, most=10)
    assert cut.table is not None
    assert [row[1] for row in cut.table.rows] == [f"bytes={index}" for index in range(20, 30)]
    assert len(whole.sentences) == 1
    assert len(cut.sentences) == 2 and "10 of 30" in cut.sentences[1]
