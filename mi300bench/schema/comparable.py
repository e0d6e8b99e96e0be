"""Which records may be compared. A fit never mixes frameworks, BLAS, devices or origins."""

from mi300bench.schema.record import Measurement

# Conditions that must be equal before two records may be used for one curve.
MUST_AGREE = ("framework", "framework_version", "blas", "device_arch", "partition")


def identity(record: Measurement) -> dict[str, str]:
    """Return what must be equal in all records of one curve."""
    conditions = {name: str(record.conditions.get(name, "")) for name in MUST_AGREE}
    return {
        "node": record.node,
        "device": record.device,
        "origin": str(record.origin),
        "source": record.source,
    } | conditions


def differences(first: Measurement, second: Measurement) -> dict[str, tuple[str, str]]:
    """Return what must be equal but differs, with both values; empty if the records compare."""
    one, other = identity(first), identity(second)
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}
