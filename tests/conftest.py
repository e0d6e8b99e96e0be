"""Fixtures that several folders share."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mi300bench.schema.record import Measurement, Outcome, Work, World, short_hash

from tests.available import REASONS

# Folders whose tests assert on times, and those that take long. Single tests elsewhere carry the
# marker themselves. A test that measures, but asserts on no time, can share the cores.
MARKED = {
    "cluster": "alone",
    "device": "alone",
    "perf": "alone",
    "browser": "slow",
    "cli": "slow",
    "probes": "slow",
    "runner": "slow",
    "training": "slow",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by folder, and skip, with the reason, what this machine cannot run."""
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in MARKED:
            item.add_marker(MARKED[folder])
    reasons = {name: missing() for name, missing in REASONS.items()}
    for item in items:
        for name, reason in reasons.items():
            if reason and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let processes that tests start share what JAX has compiled: most run the same step."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(shared / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Let processes that tests start hear a Ctrl-C, which a shell's background jobs ignore."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def make_record() -> Callable[..., Measurement]:
    """Return a function that makes complete records with given parts."""

    def make(probe: str = "memory.copy", **parts: Any) -> Measurement:
        params = parts.pop("params", {"bytes": 1024})
        ranks = parts.pop("ranks", 1)
        fields: dict[str, Any] = {
            "method": 1,
            "outcome": Outcome.OK,
            "samples": (1.0, 1.0, 1.0, 1.0, 1.0),
            "point": short_hash([probe, params, ranks]),
            "run": "20260101T000000-aaaaaa",
            "node": "n1",
            "device": "a CPU",
            "work": Work(),
            "world": World(ranks=ranks, threads=1),
            "conditions": {"framework": "torch", "framework_version": "2.13.0", "backend": "gloo"},
            "started_at": "2026-01-01T00:00:00+00:00",
        }
        fields |= parts
        fields.setdefault(
            "id", short_hash([probe, params, ranks, fields.get("pass_index", 0), fields["run"]])
        )
        return Measurement(probe=probe, params=params, **fields)

    return make


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    """Return real text of a size that trains quickly: some of CPython's documentation."""
    from pydoc_data import topics

    path = tmp_path / "text.txt"
    path.write_text("\n".join(list(topics.topics.values())[:40]), encoding="utf-8")
    return path
