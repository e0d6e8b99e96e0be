import pytest
from mi300bench.hw.facts import device_table, find_device, peak_fraction


def test_every_fact_has_a_source_and_a_date() -> None:
    for device in device_table():
        for fact in device.facts.values():
            assert fact.source and fact.read_on.year >= 2025 and fact.value > 0


def test_a_peak_is_units_times_operations_times_clock() -> None:
    checked = 0
    for device in device_table():
        clock = device.facts["clock"].value
        for fact in device.facts.values():
            if fact.formula is not None:
                assert fact.value == pytest.approx(
                    fact.formula["units"] * fact.formula["operations"] * clock, rel=1e-2
                )
                checked += 1
    assert checked >= 20


def test_the_table_has_the_devices_and_a_link_is_its_lanes() -> None:
    assert {d.key for d in device_table()} >= {
        "mi300x",
        "mi325x",
        "mi350x",
        "mi355x",
        "h100",
        "h200",
        "b200",
    }
    for key, lanes, rate in (
        ("mi300x", 7, 64e9),
        ("mi325x", 7, 64e9),
        ("mi350x", 7, 76.5e9),
        ("mi355x", 7, 76.5e9),
    ):
        device = next(d for d in device_table() if d.key == key)
        assert device.facts["link_bandwidth"].value == lanes * rate


@pytest.mark.parametrize(
    ("name", "arch", "units", "key"),
    [
        ("AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 304, "mi300x"),
        ("AMD Instinct MI300X VF", "gfx942", 304, "mi300x"),
        ("AMD Instinct MI325X", "gfx942", 304, "mi325x"),
        ("NVIDIA H100 80GB HBM3", "sm_90", 132, "h100"),
        ("NVIDIA H200", "sm_90", 132, "h200"),
        ("NVIDIA B200", "sm_100", 148, "b200"),
    ],
)
def test_a_device_is_found_by_name_or_by_architecture(
    name: str, arch: str, units: int, key: str
) -> None:
    device = find_device(name, arch=arch, compute_units=units)
    assert device is not None and device.key == key


@pytest.mark.parametrize(
    ("name", "arch", "units"),
    [
        ("AMD Instinct MI300A", "gfx942", 228),
        ("AMD Instinct MI300X", "gfx942", 38),  # one partition of a split chip
        ("AMD Radeon Graphics", "gfx942", 304),  # MI300X or MI325X: only their memory differs
        ("NVIDIA GH200 480GB", "sm_90", 132),
        ("NVIDIA GeForce RTX 4090", "sm_89", 128),
        ("AMD EPYC", "x86_64 AVX512", 2),
    ],
)
def test_an_unknown_device_has_no_peak_nor_that_of_a_similar_device(
    name: str, arch: str, units: int
) -> None:
    assert find_device(name, arch=arch, compute_units=units) is None
    assert peak_fraction(1.0, None) is None


@pytest.mark.parametrize(
    ("memory", "key"), [(206_141_652_992, "mi300x"), (274_743_689_216, "mi325x")]
)
def test_memory_distinguishes_chips_of_one_architecture_without_a_product_name(
    memory: int, key: str
) -> None:
    device = find_device(
        "AMD Radeon Graphics", arch="gfx942:sramecc+:xnack-", compute_units=304, memory_bytes=memory
    )
    assert device is not None and device.key == key
