"""Which records may meet. A fit never mixes frameworks, BLAS backends, devices or origins."""

from mi300bench.schema.record import Measurement

# Conditions that must be the same before two records are put on one curve.
MUST_AGREE = ("framework", "framework_version", "blas", "device_arch", "partition")


def identity(record: Measurement) -> dict[str, str]:
    """Return what must be equal in all records of one curve."""
    agreed = {name: str(record.conditions.get(name, "")) for name in MUST_AGREE}
    return {
        "node": record.node,
        "device": record.device,
        "origin": str(record.origin),
        "source": record.source,
    } | agreed


def differences(first: Measurement, second: Measurement) -> dict[str, tuple[str, str]]:
    """Return the names in which two records differ that must agree; empty where they may meet."""
    one, other = identity(first), identity(second)
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}
