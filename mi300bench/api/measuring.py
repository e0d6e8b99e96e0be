"""Sweeps measured into a store, and a store read."""

from collections.abc import Sequence
from pathlib import Path

from mi300bench.measurement import sweep_file
from mi300bench.measurement.local_topology import default_ranks, detect_device
from mi300bench.measurement.measure import Measured, measure
from mi300bench.measurement.settings import Settings
from mi300bench.schema.plan import Plan
from mi300bench.schema.record import Measurement
from mi300bench.store.reader import read_records

AUTO = "auto"


def plan_sweep(name: str, *, device: str = AUTO, passes: int = 3) -> Plan:
    """Return the plan of a sweep: one that ships, by name, or a TOML file, by path."""
    kind = detect_device() if device == AUTO else device
    path = sweep_file.find(name)
    return sweep_file.read(path, device=kind, default_ranks=default_ranks(kind), passes=passes)


def measure_sweep(
    name: str,
    *,
    store: Path | str = Path("runs"),
    device: str = AUTO,
    passes: int = 3,
    settings: Settings | None = None,
) -> Measured:
    """Measure a sweep into `store`; return its records and how it went.

    `settings` has everything else that the command line offers: node, origin, budget, launcher. Its store and passes count
    where it is given.
    """
    chosen = settings or Settings(store=Path(store), passes=passes)
    return measure(plan_sweep(name, device=device, passes=chosen.passes), chosen)


def read_store(store: Path | str, *, node: str = "") -> Sequence[Measurement]:
    """Return the records of a store, of one node where given; `RecordError` names damage."""
    return tuple(r for r in read_records(Path(store)) if node in ("", r.node))
