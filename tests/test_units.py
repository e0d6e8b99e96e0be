import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mi300bench.errors import PlanError
from mi300bench.units import (
    Unit,
    dtype_name,
    format_bytes,
    format_quantity,
    parse_duration,
    parse_size,
    parse_sizes,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8", 8),
        ("1K", 1024),
        ("1KiB", 1024),
        ("1kB", 1000),
        ("64MiB", 64 * 2**20),
        ("16MB", 16_000_000),
        ("1.5G", 3 * 2**29),
    ],
)
def test_sizes_are_binary_or_decimal_as_written(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_a_unit_on_the_last_size_applies_to_the_bare_ones_before_it() -> None:
    assert parse_sizes("1,16,256MB") == (1_000_000, 16_000_000, 256_000_000)
    assert parse_sizes("1K,16,2MiB") == (1024, 16 * 2**20, 2 * 2**20)


def test_a_range_multiplies_or_adds() -> None:
    assert parse_sizes("8:64:x2") == (8, 16, 32, 64)
    assert parse_sizes("1K:3K:+1K") == (1024, 2048, 3072)
    assert parse_sizes("8:32") == (8, 16, 32)


@pytest.mark.parametrize(
    "text",
    ["", "MB", "-1", "0", "1.5", "12 parsecs", "8:4:x2", "8:64:x1", "8:64:/2", "1,,2", "1:2:3:4"],
)
def test_a_size_that_cannot_be_read_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_sizes(text)
    assert caught.value.hint


@given(st.integers(min_value=1, max_value=2**50))
def test_a_plain_number_of_bytes_is_itself(size: int) -> None:
    assert parse_size(str(size)) == size


@given(st.text(max_size=12))
def test_any_text_gives_positive_sizes_or_a_plan_error(text: str) -> None:
    with contextlib.suppress(PlanError):
        assert all(size > 0 for size in parse_sizes(text))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m5", "0s", "5 minutes"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(PlanError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4.012e12, Unit.BYTE_PER_SECOND, "4.01 TB/s"),
        (12.34e-6, Unit.SECOND, "12.3 us"),
        (0.9999, Unit.SECOND, "1.00 s"),
        (999.96e9, Unit.FLOP_PER_SECOND, "1.00 TFLOP/s"),
        (0, Unit.SECOND, "0 s"),
        (None, Unit.SECOND, "unknown"),
    ],
)
def test_quantities_keep_three_digits(value: float | None, unit: Unit, text: str) -> None:
    assert format_quantity(value, unit) == text


def test_bytes_are_shown_binary() -> None:
    assert format_bytes(64 * 2**20) == "64 MiB"
    assert format_bytes(12) == "12 B"


def test_dtype_names() -> None:
    assert dtype_name("bf16") == "bfloat16"
    with pytest.raises(PlanError, match="fp7"):
        dtype_name("fp7")
