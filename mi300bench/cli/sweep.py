"""mi300bench sweep: list, plan, run."""

import json
from collections import Counter
from dataclasses import asdict
from typing import Any

import click

from mi300bench.cli import show
from mi300bench.cli.options import device_of, json_option, measuring_options, say, settings_of
from mi300bench.measurement import sweep_file
from mi300bench.measurement.follow import lead_or_follow
from mi300bench.measurement.local_topology import default_ranks
from mi300bench.measurement.measure import measure
from mi300bench.measurement.rerun import rerun_plan
from mi300bench.probes.catalog import every_probe
from mi300bench.schema.plan import Plan
from mi300bench.store.reader import read_records


def _plan(name: str, device: str, passes: int) -> Plan:
    kind = device_of(device)
    return sweep_file.read(
        sweep_file.find(name), device=kind, default_ranks=default_ranks(kind), passes=passes
    )


@click.group("sweep")
def command() -> None:
    """Sweeps written as TOML: a question, probes with axes, their product."""


@command.command("list")
@json_option
def list_sweeps(*, as_json: bool) -> None:
    """List the sweeps and the probes that a sweep can use."""
    sweeps = {name: sweep_file.question(path) for name, path in sweep_file.available().items()}
    if as_json:
        click.echo(
            json.dumps({"sweeps": sweeps, "probes": {n: e.summary for n, e in every_probe().items()}})
        )
        return
    for title, rows in (("sweeps", sweeps), ("probes", {n: e.summary for n, e in every_probe().items()})):
        click.echo(f"{title}:")
        width = max((len(name) for name in rows), default=0)
        for name, said in rows.items():
            click.echo(f"  {name.ljust(width)}  {said}")


@command.command("plan")
@click.argument("name")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda", "rocm"]), default="auto", show_default=True,
              help="The device the points are made for.")  # fmt: skip
@click.option(
    "--passes", type=int, default=3, show_default=True, help="Fresh processes for each point."
)
@json_option
def plan_sweep(*, name: str, device: str, passes: int, as_json: bool) -> None:
    """Show the points of a sweep (a name or a file) without running them."""
    plan = _plan(name, device, passes)
    if as_json:
        click.echo(json.dumps([asdict(point) | {"key": point.key} for point in plan.points]))
        return
    click.echo(plan.question)
    counts = Counter(point.probe for point in plan.points)
    click.echo(
        f"{len(plan.points)} points ({', '.join(f'{n} {c}' for n, c in counts.items())}) in {plan.passes} passes",
        err=True,
    )
    for point in plan.points:
        said = "  ".join(f"{key}={value}" for key, value in point.params.items())
        click.echo(f"  {point.probe}  {said}  ranks={point.world.ranks}")


@command.command("run")
@click.argument("name")
@measuring_options
def run_sweep(*, name: str, device: str, as_json: bool, **shared: Any) -> None:
    """Run a sweep (a name or a file) into the store."""
    plan = _plan(name, device, shared["passes"])
    with settings_of(**shared) as settings, lead_or_follow(plan, settings) as mine:
        if mine is not None:
            show.measured(measure(*mine), as_json=as_json, show=show.generic_table)


@command.command("again")
@click.argument("record")
@measuring_options
def run_again(*, record: str, device: str, as_json: bool, **shared: Any) -> None:
    """Measure the point of a stored RECORD (an id) anew: same parameters, ranks and environment."""
    plan = rerun_plan(
        read_records(shared["store"], warn=say), record, device=device, passes=shared["passes"]
    )
    with settings_of(**shared) as settings, lead_or_follow(plan, settings) as mine:
        if mine is not None:
            show.measured(measure(*mine), as_json=as_json, show=show.generic_table)
