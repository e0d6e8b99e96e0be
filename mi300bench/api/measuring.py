"""Measurements into a store, and a store read: sweeps, memory, collectives, overlap, reruns.

``device`` is ``cpu``, ``cuda``, ``rocm`` or ``auto``, which is a GPU if its driver is loaded.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mi300bench.measurement import plans, sweep_file
from mi300bench.measurement.follow import lead_or_follow
from mi300bench.measurement.local_topology import default_ranks, detect_device, local_topology
from mi300bench.measurement.measure import Measured, measure
from mi300bench.measurement.rerun import rerun_plan
from mi300bench.measurement.settings import Say, Settings, silent
from mi300bench.schema.plan import Plan
from mi300bench.schema.record import Measurement
from mi300bench.store.query import query
from mi300bench.store.reader import read_records
from mi300bench.units import GIB, MIB

AUTO = "auto"
# An array far larger than the last-level cache.
LARGE_ARRAY = {"cpu": 512 * MIB, "cuda": 4 * GIB, "rocm": 4 * GIB}


def device_kind(device: str) -> str:
    """Return `device`, or the kind of device that was detected for ``auto``."""
    return detect_device() if device == AUTO else device


def plan_sweep(name: str, *, device: str = AUTO, passes: int = 3) -> Plan:
    """Return the plan of a sweep: one that ships, by name, or a TOML file, by path."""
    kind = device_kind(device)
    path = sweep_file.find(name)
    return sweep_file.read(path, device=kind, default_ranks=default_ranks(kind), passes=passes)


def measure_plan(plan: Plan, settings: Settings) -> Measured | None:
    """Measure a plan; return its records and how it went.

    Under an external launcher all ranks measure together, and only rank 0 has the records: the
    other ranks get None.
    """
    with lead_or_follow(plan, settings) as leading:
        return measure(*leading) if leading is not None else None


def measure_sweep(
    name: str,
    *,
    store: Path | str = Path("runs"),
    device: str = AUTO,
    passes: int = 3,
    settings: Settings | None = None,
) -> Measured:
    """Measure a sweep into `store`; return its records and how it went.

    `settings` are all other settings of the command line, such as node, origin, budget and
    launcher. If they are given, `store` and `passes` are ignored.
    """
    chosen = settings or Settings(store=Path(store), passes=passes)
    return measure(plan_sweep(name, device=device, passes=chosen.passes), chosen)


def measure_memory(
    settings: Settings,
    *,
    patterns: Sequence[str],
    sizes: Sequence[int] = (),
    dtype: str = "float32",
    variants: Sequence[str] = ("op", "compiled"),
    row_bytes: Sequence[int] = (256, 4096),
    device: str = AUTO,
) -> Measured:
    """Measure memory bandwidth by pattern and bytes per array.

    The default of `sizes` is one array far larger than the cache.
    """
    kind = device_kind(device)
    points = plans.memory_points(
        patterns,
        sizes or (LARGE_ARRAY[kind],),
        local_topology(kind, 1),
        dtype=dtype,
        variants=variants,
        row_bytes=row_bytes,
    )
    question = "What bandwidth does memory sustain, by pattern and size?"
    return measure(plans.plan(question, points, passes=settings.passes), settings)


def measure_collectives(
    settings: Settings,
    *,
    ops: Sequence[str],
    sizes: Sequence[int],
    ranks: Sequence[int] = (),
    dtype: str = "float32",
    device: str = AUTO,
) -> Measured | None:
    """Measure collectives by total bytes and number of ranks.

    The default of `ranks` is one per GPU, or one per core up to two, or those of the launcher.
    Returns None on the ranks that an external launcher started, other than rank 0.
    """
    kind = device_kind(device)
    worlds = [
        local_topology(kind, count, launcher=settings.launcher)
        for count in ranks or (default_ranks(kind),)
    ]
    points = plans.collective_points(ops, sizes, worlds, dtype=dtype)
    question = "How long does a collective take, by size and number of ranks?"
    return measure_plan(plans.plan(question, points, passes=settings.passes), settings)


def measure_overlap(
    settings: Settings,
    *,
    sizes: Sequence[int],
    shapes: Sequence[tuple[int, int, int]],
    ranks: Sequence[int] = (),
    dtype: str = "float32",
    inflight: int = 1,
    device: str = AUTO,
) -> Measured | None:
    """Measure how much all-reduces and matrix products (M, N, K) slow each other.

    `inflight` all-reduces run at once. Ranks and result are as in `measure_collectives`.
    """
    kind = device_kind(device)
    points = [
        point
        for count in ranks or (default_ranks(kind),)
        for point in plans.overlap_points(
            sizes,
            shapes,
            local_topology(kind, count, launcher=settings.launcher),
            dtype=dtype,
            inflight=inflight,
        )
    ]
    question = "How much do communication and computation slow each other?"
    return measure_plan(plans.plan(question, points, passes=settings.passes), settings)


def rerun_record(identity: str, settings: Settings, *, device: str = AUTO) -> Measured | None:
    """Repeat the point of a stored record: same parameters, ranks and environment.

    Returns None on the ranks that an external launcher started, other than rank 0.
    """
    records = read_records(settings.store, warn=settings.say)
    return measure_plan(
        rerun_plan(records, identity, device=device, passes=settings.passes), settings
    )


def read_store(store: Path | str, *, node: str = "") -> Sequence[Measurement]:
    """Return the records of a store, or those of one node; `RecordError` names damaged files."""
    return tuple(r for r in read_records(Path(store)) if node in ("", r.node))


def query_store(store: Path, sql: str, *, warn: Say = silent) -> list[dict[str, Any]]:
    """Return the rows that an SQL query selects from the table ``records`` of a store."""
    return query(read_records(store, warn=warn), sql)
