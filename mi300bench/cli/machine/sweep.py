"""mi300bench sweep: list, plan, run, again."""

import json
from collections import Counter
from dataclasses import asdict
from typing import Any

import click

from mi300bench.api.measuring import measure_plan, plan_sweep, rerun_record
from mi300bench.cli import show
from mi300bench.cli.options import device_option, json_option, measuring_options, settings_of
from mi300bench.measurement import sweep_file
from mi300bench.probes.catalog import every_probe


@click.group("sweep")
def command() -> None:
    """Sweeps: TOML files with a question, and probes with axes whose product is measured."""


@command.command("list")
@json_option
def list_command(*, as_json: bool) -> None:
    """List the sweeps, and the probes that a sweep can use."""
    sweeps = {name: sweep_file.question(path) for name, path in sweep_file.available().items()}
    probes = {name: entry.summary for name, entry in every_probe().items()}
    if as_json:
        click.echo(json.dumps({"sweeps": sweeps, "probes": probes}))
        return
    for title, rows in (("sweeps", sweeps), ("probes", probes)):
        click.echo(f"{title}:")
        width = max((len(name) for name in rows), default=0)
        for name, text in rows.items():
            click.echo(f"  {name.ljust(width)}  {text}")


@command.command("plan")
@click.argument("name")
@device_option("Device to plan for. auto is a GPU if its driver is loaded, else the CPU.")
@click.option(
    "--passes",
    type=int,
    default=3,
    show_default=True,
    help="Number of fresh processes that measure each point.",
)
@json_option
def plan_command(*, name: str, device: str, passes: int, as_json: bool) -> None:
    """List the points of a sweep (a name or a file) without measuring them."""
    plan = plan_sweep(name, device=device, passes=passes)
    if as_json:
        click.echo(json.dumps([asdict(point) | {"key": point.key} for point in plan.points]))
        return
    click.echo(plan.question)
    counts = Counter(point.probe for point in plan.points)
    by_probe = ", ".join(f"{count} {probe}" for probe, count in counts.items())
    click.echo(f"{len(plan.points)} points ({by_probe}) in {plan.passes} passes", err=True)
    for point in plan.points:
        parameters = "  ".join(f"{key}={value}" for key, value in point.params.items())
        click.echo(f"  {point.probe}  {parameters}  ranks={point.world.ranks}")


@command.command("run")
@click.argument("name")
@measuring_options
def run_command(*, name: str, device: str, as_json: bool, **shared: Any) -> None:
    """Measure a sweep (a name or a file) into the store."""
    plan = plan_sweep(name, device=device, passes=shared["passes"])
    with settings_of(**shared) as settings:
        measured = measure_plan(plan, settings)
    show.measured(measured, as_json=as_json, show=show.generic_table)


@command.command("again")
@click.argument("record")
@measuring_options
def again_command(*, record: str, device: str, as_json: bool, **shared: Any) -> None:
    """Repeat the point of a stored RECORD (an id): same parameters, ranks and environment."""
    with settings_of(**shared) as settings:
        measured = rerun_record(record, settings, device=device)
    show.measured(measured, as_json=as_json, show=show.generic_table)
