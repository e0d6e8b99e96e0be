"""mi300bench node: inventory and doubts."""

import json
from dataclasses import asdict

import click

from mi300bench.api.measuring import device_kind
from mi300bench.cli.options import device_option, json_option
from mi300bench.errors import NodeError
from mi300bench.measurement.node import NodeReport, describe_node
from mi300bench.schema.codec import encode_doubt
from mi300bench.units import Unit, format_bytes, format_quantity


@click.command("node")
@json_option
@device_option(
    "Device to describe with torch. auto is a GPU if its driver is loaded, else the CPU."
)
@click.option("--node", default="", help="Name of this machine. Default: the host name.")
def command(*, as_json: bool, device: str, node: str) -> None:
    """Describe this machine: processor, memory, network, GPUs, published figures and doubts.

    If torch is installed, a worker process also describes the device as torch sees it.
    """
    report = describe_node(device_kind(device), node=node)
    if as_json:
        inventory = asdict(report.inventory) | {
            "doubts": [encode_doubt(d) for d in report.inventory.doubts]
        }
        facts = {
            name: asdict(fact) | {"read_on": str(fact.read_on)}
            for name, fact in report.facts.items()
        }
        click.echo(
            json.dumps(
                {
                    "inventory": inventory,
                    "torch": report.torch,
                    "published": facts,
                    "torch_error": report.torch_error,
                }
            )
        )
    else:
        _print(report)
    if report.torch is None and device not in ("auto", "cpu"):
        raise NodeError(report.torch_error, hint="mi300bench node --device cpu")


def _print(report: NodeReport) -> None:
    n = report.inventory
    lines = [
        ("node", n.node),
        ("system", n.system),
        ("processor", f"{n.cpu}, {n.cores} cores, {n.numa_nodes} NUMA node(s)"),
        ("last-level cache", format_bytes(n.cache_bytes) if n.cache_bytes else "unknown"),
        ("memory", f"{format_bytes(n.memory_bytes)}, {format_bytes(n.memory_free_bytes)} free"),
        ("network", ", ".join(n.nics) or "no physical interface"),
    ]
    lines += [
        ("GPU", f"{gpu['name']} {gpu['arch']} {gpu['compute_partition']}/{gpu['memory_partition']}")
        for gpu in n.gpus
    ]
    if report.torch is None:
        lines.append(("torch", report.torch_error))
    else:
        t = report.torch
        cache = format_bytes(t["cache_bytes"]) if t["cache_bytes"] else "unknown"
        lines += [
            (
                "torch",
                f"{t['conditions']['framework_version']} {t['conditions']['runtime']}".strip(),
            ),
            ("torch device", str(t["kind"])),
            (
                "device",
                f"{t['name']} ({t['arch']}), {t['compute_units']} compute units, "
                f"{format_bytes(t['memory_bytes'])}",
            ),
            ("device cache", cache),
        ]
    for name, fact in report.facts.items():
        lines.append(
            (f"published {name}", f"{format_quantity(fact.value, Unit(fact.unit))} ({fact.source})")
        )
    if not report.facts:
        lines.append(
            ("published", "nothing for this device, so rates are not compared with a peak")
        )
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        click.echo(f"{name.ljust(width)}  {value}")
    doubts = [*map(str, n.doubts), *(report.torch["doubts"] if report.torch else [])]
    for doubt in doubts:
        click.echo(f"{'doubt'.ljust(width)}  {doubt}")
    if not doubts:
        click.echo(f"{'doubts'.ljust(width)}  none")
