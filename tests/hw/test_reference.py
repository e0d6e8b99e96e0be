"""A value is compared with published values under the same conditions, and with no others."""

import pytest
from mi300bench.hw.facts import device_table
from mi300bench.hw.reference import level_busbw, normal, published


def test_every_row_has_a_device_a_source_a_method_and_is_below_the_peak() -> None:
    devices = {device.key: device for device in device_table()}
    assert len(published()) >= 40
    for row in published():
        facts = devices[row.device].facts
        assert row.source and row.method and row.read_on.year >= 2025
        if row.quantity == "gemm":
            assert row.value < facts[row.dtype].value
        if row.quantity.startswith("memory."):
            assert row.value < facts["memory_bandwidth"].value


def test_the_range_is_that_published_for_the_same_conditions() -> None:
    eight = normal("mi300x", "collective.all_reduce", 310e9, ranks=8, size=4 * 2**30)
    assert eight is not None and (eight.low, eight.high) == (304e9, 314e9)
    assert eight.position == "within"
    pair = normal("mi300x", "collective.all_reduce", 20e9, ranks=2, size=4 * 2**30)
    assert pair is not None and pair.position == "below" and "47.7 GB/s" in pair.as_text
    product = normal("mi300x", "gemm", 640e12, dtype="bfloat16", flop=2 * 8192.0**3)
    assert product is not None and product.low == 581e12 and product.high == 788.2e12
    curve = normal("h200", "collective.all_reduce", 40e9, ranks=8, size=2**20)
    assert curve is not None and curve.high == pytest.approx(39.9e9)


@pytest.mark.parametrize(
    ("device", "quantity", "conditions"),
    [
        (
            "mi300x",
            "collective.all_reduce",
            {"ranks": 4, "size": 2**32},
        ),  # not published for 4 ranks
        ("mi300x", "collective.all_reduce", {"ranks": 8, "size": 2**20}),  # nor for a small message
        ("mi300x", "gemm", {"dtype": "float32", "flop": 1e12}),
        ("mi300x", "gemm", {"dtype": "bfloat16", "flop": 1e9}),  # too small to compare
        ("a cpu", "memory.copy", {}),
    ],
)
def test_without_a_published_value_there_is_no_range(
    device: str, quantity: str, conditions: dict
) -> None:
    assert normal(device, quantity, 1.0, **conditions) is None


def test_the_busbw_of_large_messages_is_the_median_of_published_values() -> None:
    row = level_busbw("mi300x", "all_reduce", 8)  # 304, 312.9 and 314 GB/s
    assert row is not None and row.value == 312.9e9 and "ml-engineering" in row.cited
    assert level_busbw("h200", "all_reduce", 8).value == 473.0e9  # not that of a smaller message
    assert level_busbw("mi300x", "all_reduce", 3) is None
