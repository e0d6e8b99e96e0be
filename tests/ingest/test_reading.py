"""Numbers, cells, dates and lines as tools print them."""

import pytest
from mi300bench.ingest.reading import cells, clean, date_of, is_cut, number, positive, whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("27.12", 27.12),
        ("27,12", 27.12),
        ("1,048,576", 1048576.0),
        ("1,048,576.5", 1048576.5),
        ("0*", 0.0),
        ("nan", None),
        ("1e999", None),
        ("", None),
        ("1,2,3", None),
    ],
)
def test_numbers_are_read_as_locales_print_them(text: str, value: float | None) -> None:
    assert number(text) == value


def test_whole_and_positive_numbers() -> None:
    assert whole("3") == 3 and whole("3.5") is None and whole("-1") is None
    assert positive("0") is None and positive("0.1") == 0.1


def test_semicolons_separate_cells_whose_commas_are_decimal() -> None:
    assert cells("G0;1,424;12,345") == ["G0", "1.424", "12.345"]
    assert cells('a,"1,424",b') == ["a", "1,424", "b"]


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2026-10-05", "2026-10-05T00:00:00.000+00:00"),
        ("2026-10-05T14:30:00+02:00", "2026-10-05T14:30:00.000+02:00"),
        ("yesterday", ""),
    ],
)
def test_a_date_without_a_zone_is_in_utc(text: str, date: str) -> None:
    assert date_of(text) == date


def test_a_line_is_cleaned_and_keeps_its_number() -> None:
    text = "[1,0]<stdout>:\x1b[32ma\x1b[0m\n50 %\r100 %\n"
    assert list(clean(text))[:3] == [(1, "a"), (2, "50 %"), (2, "100 %")]


def test_only_the_last_line_of_a_text_without_a_line_feed_is_cut() -> None:
    assert is_cut("a\nb", 2) and not is_cut("a\nb", 1) and not is_cut("a\nb\n", 2)
