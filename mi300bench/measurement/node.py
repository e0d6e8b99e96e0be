"""What this machine is: the kernel's view, torch's view through a worker, and what is published of the device."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mi300bench.errors import Mi300benchError
from mi300bench.hw.facts import Fact, find_device
from mi300bench.hw.inventory import Inventory, take_inventory
from mi300bench.measurement.local_topology import local_topology
from mi300bench.runner.launch import PointFailed, ProcessWorker, WorkerLost


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """The inventory; what torch says, or why it says nothing; the published facts of the device, if any."""

    inventory: Inventory
    torch: Mapping[str, Any] | None
    torch_error: str
    facts: Mapping[str, Fact]


def look(device: str, *, node: str) -> NodeReport:
    """Return the report. A missing or broken torch is told, not raised: the inventory stands without it."""
    inventory = take_inventory(node=node)
    torch: Mapping[str, Any] | None = None
    error = ""
    try:
        worker = ProcessWorker(replace(local_topology(device, 1), threads=0), {})
        try:
            torch = worker.describe()
        finally:
            worker.close()
    except (WorkerLost, PointFailed) as cause:
        error = f"torch could not be asked: {cause}"
    except Mi300benchError as cause:
        error = str(cause)
    found = (
        find_device(torch["name"], arch=torch["arch"], compute_units=torch["compute_units"])
        if torch
        else None
    )
    return NodeReport(
        inventory=inventory, torch=torch, torch_error=error, facts=found.facts if found else {}
    )
