from mi300bench_reports.sections.overlap import overlap


def test_both_slow_downs_are_shown(records) -> None:
    section = overlap(records)
    assert section is not None and section.table is not None
    (row,) = section.table.rows
    assert row[:3] == ("1 MiB", "8x8x8 float32", "2")
    # Computation: 1.2 s while both run, 1.0 s alone. The all-reduce: 1.5 s alone, of which
    # 1.6 - 1.2 = 0.4 s undisturbed, so that 1.1 s of it took 1.2 s.
    assert row[3:5] == ("1.20", "1.09")


def test_without_such_records_there_is_no_section(make_record) -> None:
    assert overlap([make_record()]) is None
