"""mi300bench scaling."""

from dataclasses import replace
from typing import Any

import click

from mi300bench.cli import show
from mi300bench.cli.options import device_of, measuring_options, settings_of, whole_numbers
from mi300bench.measurement.local_topology import default_ranks, local_topology
from mi300bench.measurement.measure import measure, require_all_ok
from mi300bench.schema.record import Origin
from mi300bench.stats import interval_of
from mi300bench.store.select import by_point
from mi300bench.strategies.mesh.placement import VIRTUAL
from mi300bench.trainers.registry import spec_of
from mi300bench.trainers.scaling import efficiency, scaling_plan
from mi300bench.units import Unit, format_quantity


@click.command("scaling")
@click.argument("trainer")
@click.option("--preset", default="tiny", show_default=True, help="Which model.")
@click.option(
    "--devices",
    default="",
    help="Numbers of devices, such as 1,2,4,8; default up to all that are here, on a CPU up to 8.",
)
@click.option(
    "--batch",
    type=int,
    help="Sequences a device, with --strong of all devices; default the preset's.",
)
@click.option(
    "--strong",
    is_flag=True,
    help="The same step for all, instead of the same share for each device.",
)
@measuring_options
def command(
    *,
    trainer: str,
    preset: str,
    devices: str,
    batch: int | None,
    strong: bool,
    device: str,
    as_json: bool,
    **shared: Any,
) -> None:
    """Measure a trainer's step on 1, 2, 4, ... devices, and what share of perfect scaling that is.

    A CPU's devices are virtual and share its cores: such records are labelled emulated, and their efficiency says what the program
    costs beside the computation, not how hardware scales.
    """
    kind = device_of(device)
    most = 8 if kind == "cpu" else default_ranks(kind)
    counts = (
        whole_numbers(devices, "--devices")
        if devices
        else tuple(n for n in (1, 2, 4, 8, 16) if n <= most)
    )
    worlds = [
        replace(local_topology(kind, n, is_absent=kind == "cpu"), framework="jax")
        for n in sorted(set(counts))
    ]
    plan = scaling_plan(
        spec_of(trainer), preset, worlds, batch=batch, is_strong=strong, passes=shared["passes"]
    )
    if kind == "cpu" and shared["origin"] == "measured":
        shared |= {"origin": str(Origin.EMULATED), "source": VIRTUAL}
    with settings_of(**shared) as settings:
        measured = measure(plan, settings)
    show.measured(
        measured, as_json=as_json, show=lambda records: _table(list(by_point(records).values()))
    )
    require_all_ok(measured)


def _table(points: Any) -> None:
    points.sort(key=lambda passes: passes[0].world.ranks)
    rows = []
    for passes in points:
        p, seconds, share = passes[0].params, interval_of(passes), efficiency(points[0], passes)
        tokens = int(p["data.batch"]) * int(p["data.seq_len"])
        rows.append(
            (passes[0].world.ranks, tokens, format_quantity(seconds.mid, Unit.SECOND), f"{tokens / seconds.mid:.0f}",
             f"{share.mid:.1%} ({share.low:.1%} to {share.high:.1%})", passes[0].origin)
        )  # fmt: skip
    show.table(
        (
            "devices",
            "tokens",
            "step",
            "tokens/s",
            f"per device, of {points[0][0].world.ranks}'s",
            "origin",
        ),
        rows,
    )
