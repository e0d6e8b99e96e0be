"""A description of this machine: by the kernel, by torch in a worker, and by published facts."""

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
    """The inventory, torch's description of the device or its error, and the device's facts."""

    inventory: Inventory
    torch: Mapping[str, Any] | None
    torch_error: str
    facts: Mapping[str, Fact]


def describe_node(device: str, *, node: str) -> NodeReport:
    """Return the report. Without torch it has the inventory, and `torch_error` gives the reason."""
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
        error = f"torch could not describe the device: {cause}"
    except Mi300benchError as cause:
        error = str(cause)
    device_facts = (
        find_device(torch["name"], arch=torch["arch"], compute_units=torch["compute_units"])
        if torch
        else None
    )
    return NodeReport(
        inventory=inventory,
        torch=torch,
        torch_error=error,
        facts=device_facts.facts if device_facts else {},
    )
