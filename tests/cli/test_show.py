"""Tables on stdout: words to the left, numbers to the right, and rccl-tests' columns as it does."""

import re

import pytest
from mi300bench.cli import show
from mi300bench.schema.record import World


def test_words_are_aligned_left_and_numbers_right(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("copy", 12, "1.50 GiB", "0.5%", "ab12"), ("x", 3456, "-", "12.0%", "9f")]
    show.table(("name", "n", "size", "+-", "id"), rows)
    assert capsys.readouterr().out.splitlines() == [
        "name     n      size     +-  id",
        "copy    12  1.50 GiB   0.5%  ab12",
        "x     3456         -  12.0%  9f",
    ]


@pytest.mark.parametrize("cell", ["5", "-1.5", "1,024", "3e-05", "1.02 (0.99 to 1.05)", "7 us"])
def test_a_cell_that_starts_with_a_number_is_aligned_right(cell: str, capsys) -> None:
    show.table(("a wide column",), [(cell,)])
    assert capsys.readouterr().out.splitlines()[1] == cell.rjust(len("a wide column"))


@pytest.mark.parametrize("cell", ["64x64x64", "2026-10-22", "3fa2b", "n5", "unknown"])
def test_shapes_dates_and_names_are_aligned_left(cell: str, capsys) -> None:
    show.table(("a wide column",), [(cell,)])
    assert capsys.readouterr().out.splitlines()[1] == cell


def test_the_columns_of_rccl_tests_are_all_aligned_right(make_record, capsys) -> None:
    record = make_record(
        "collective.all_reduce",
        params={"bytes": 1024, "dtype": "float32"},
        world=World(ranks=2),
    )
    show.collective_table([record])
    _, names, row = capsys.readouterr().out.splitlines()
    ends = [[cell.end() for cell in re.finditer(r"\S+", line)] for line in (names, row)]
    assert ends[0] == ends[1] and len(ends[0]) == 10
