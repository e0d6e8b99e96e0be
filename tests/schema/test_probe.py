import pytest
from mi300bench.probes.catalog import CATALOG
from mi300bench.schema.probe import family_of, operation_of


@pytest.mark.parametrize(
    ("probe", "family", "operation"),
    [
        ("memory.copy", "memory", "memory.copy"),
        ("jax.memory.add", "jax.memory", "memory.add"),
        ("gemm", "gemm", "gemm"),
        ("gemm.experts", "gemm", "gemm.experts"),
        ("jax.gemm", "jax.gemm", "gemm"),
        ("zaya1.step", "zaya1", "zaya1.step"),
    ],
)
def test_a_probe_has_a_family_and_an_operation(probe: str, family: str, operation: str) -> None:
    assert family_of(probe) == family and operation_of(probe) == operation


def test_every_jax_probe_has_a_torch_probe_of_the_same_operation() -> None:
    operations = [operation_of(name) for name, entry in CATALOG.items() if entry.needs == "jax"]
    assert operations and all(CATALOG[name].needs == "torch" for name in operations)
