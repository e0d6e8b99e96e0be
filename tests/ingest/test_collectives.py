"""rccl-tests and nccl-tests: values worked out by hand from the samples."""

import re

import pytest
from mi300bench.ingest.formats import read
from mi300bench.ingest.reading import LogReading

from tests.ingest.sample_files import SAMPLES, sample


def points(reading: LogReading) -> list[tuple[object, bool, tuple[float, ...]]]:
    """Return bytes, place and seconds of each row."""
    return [
        (row.params["bytes"], bool(row.params.get("in_place")), row.seconds) for row in reading.rows
    ]


def test_the_table_of_rccl_tests() -> None:
    reading = sample("rccl_all_reduce.txt")
    assert len(reading.rows) == 8 and not reading.skipped
    assert reading.device == "AMD Instinct MI300X"
    first, in_place = reading.rows[:2]
    assert first.probe == "collective.all_reduce" and first.ranks == 8
    assert first.params == {"bytes": 2**20, "dtype": "float32"}
    assert first.seconds == pytest.approx((52.31e-6,)) and first.work.message_bytes == 2**20
    assert first.stated["stated_busbw"] == (35.08e9,)
    assert in_place.params["in_place"] is True and in_place.seconds == pytest.approx((51.98e-6,))
    largest = reading.rows[6]
    assert largest.seconds == pytest.approx((24021e-6,))
    assert largest.stated["stated_algbw"] == (178.80e9,)


def test_a_log_with_the_usual_damage() -> None:
    """Labels, colours, decimal commas, a broken row, another rank's copy of a row, a cut end."""
    clean, messy = sample("rccl_all_reduce.txt"), sample("rccl_messy.txt")
    assert points(messy) == points(clean)[:6]
    assert messy.rows[0].ranks == 8
    copy, end = 19, 23
    assert [skipped.line for skipped in messy.skipped] == [copy, end]


def test_a_table_without_an_operation_says_so_in_its_records() -> None:
    assert "operation" in sample("rccl_messy.txt").conditions
    assert "operation" not in sample("rccl_all_reduce.txt").conditions


def test_an_incomplete_last_number_is_not_read() -> None:
    text = (SAMPLES / "rccl_all_reduce.txt").read_text()
    row = text.index("  4294967296")
    in_place_time = read(text[: row + 100], kind="rccl", name="x")
    assert [place for size, place, _ in points(in_place_time) if size == 2**32] == [False]
    first_bandwidth = read(text[: text.index("178.80") + 4], kind="rccl", name="x")
    assert 2**32 not in [size for size, _, _ in points(first_bandwidth)]
    assert first_bandwidth.skipped


def test_older_columns() -> None:
    old = sample("nccl_old.txt")
    assert [row.probe for row in old.rows] == ["collective.all_gather"] * 4
    assert old.rows[0].ranks == 2 and old.rows[2].seconds == pytest.approx((92.40e-6,))
    assert old.rows[2].stated["stated_busbw"] == (90.79e9,)


def test_the_json_of_nccl_tests() -> None:
    document = sample("nccl.json")
    assert len(document.rows) == 8 and document.device == "NVIDIA H200"
    assert document.conditions["nccl_version"] == "22707"
    first = document.rows[0]
    assert first.ranks == 8 and first.seconds == pytest.approx((52.31e-6,))


def test_the_json_of_rccl_tests() -> None:
    records = sample("rccl.json").rows
    first = records[0]
    assert first.probe == "collective.reduce_scatter" and first.ranks == 16
    assert first.params["dtype"] == "bfloat16" and first.seconds == pytest.approx((3301.5e-6,))
    assert not first.wrong and "3" in records[2].wrong


def test_the_csv_of_rccl_tests_with_nodes_in_the_rows_alone() -> None:
    first, second = sample("rccl.csv").rows[:2]
    assert first.ranks == 16 and first.seconds == pytest.approx((3150.25e-6,))
    assert second.params["in_place"] is True


def test_a_log_of_several_tests_is_read_test_by_test() -> None:
    """A table has the operation of the line that concludes it, and the ranks of the list above."""
    one = (SAMPLES / "rccl_all_reduce.txt").read_text()
    other = one.replace("all_reduce", "all_gather")
    other = "\n".join(
        line for line in other.split("\n") if not re.match(r"#\s+Rank\s+[4-7]\s", line)
    )
    rows = read(one + other, kind="rccl", name="x").rows
    first, second = ("collective.all_reduce", 8), ("collective.all_gather", 4)
    assert [(row.probe, row.ranks) for row in rows] == [first] * 8 + [second] * 8
