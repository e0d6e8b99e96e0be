"""JAX with eight virtual devices, set before its import; processes share compilations."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
    # Level 0: LLVM takes much of these tests' time, and they compare with tolerances.
    flags = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Share compilations among this process, pytest's workers, and what the tests start."""
    base = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    folder = (base.parent if is_worker else base) / "jax-compilations"
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    if find_spec("jax"):
        import jax

        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return folder
