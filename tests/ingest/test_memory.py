"""BabelStream: values worked out by hand from the samples."""

import pytest

from tests.ingest.sample_files import sample


def test_the_table_in_megabytes() -> None:
    copy, scale, add = sample("babelstream.txt").rows[:3]
    assert copy.params == {"bytes": 268435456 * 8, "dtype": "float64", "variant": "babelstream"}
    assert scale.probe == "memory.scale"
    assert copy.work.bytes_read == copy.work.bytes_written == 2**31
    assert add.work.bytes_read == 2**32
    assert copy.stated["stated_best"] == (4177283.271e6,) and copy.seconds == (0.00104,)


def test_the_csv_in_mebibytes() -> None:
    table = sample("babelstream.csv")
    assert [row.probe for row in table.rows] == ["memory.copy", "memory.triad"]
    assert table.rows[0].stated["stated_best"][0] == pytest.approx(24417.4 * 2**20)
    nstream, incomplete = 4, 5
    assert [skipped.line for skipped in table.skipped] == [nstream, incomplete]
