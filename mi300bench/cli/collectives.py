"""mi300bench collectives."""

from typing import Any

import click

from mi300bench.cli import show
from mi300bench.cli.options import device_of, measuring_options, settings_of, whole_numbers, words
from mi300bench.measurement import plans
from mi300bench.measurement.follow import lead_or_follow
from mi300bench.measurement.local_topology import default_ranks, local_topology
from mi300bench.measurement.measure import measure
from mi300bench.physics import COLLECTIVES
from mi300bench.units import dtype_name, parse_sizes


@click.command("collectives")
@click.option("--ops", default="all_reduce,all_gather,reduce_scatter,all_to_all", show_default=True,
              help=f"Of {', '.join(COLLECTIVES)}.")  # fmt: skip
@click.option(
    "--sizes",
    default="1K:64M:x8",
    show_default=True,
    help="Total message sizes, such as 1,16,256MB or 8:128M:x2.",
)
@click.option(
    "--ranks",
    default="",
    help="Numbers of local ranks, such as 2,4,8; under torchrun: its own group.",
)
@click.option("--dtype", default="float32", show_default=True, help="Element type.")
@measuring_options
def command(
    *, ops: str, sizes: str, ranks: str, dtype: str, device: str, as_json: bool, **shared: Any
) -> None:
    """Measure collectives by size and number of ranks; the answer of each is checked.

    Starts the ranks itself, or joins the group when run under torchrun (then one pass, on every node the same command).
    """
    kind = device_of(device)
    counts = whole_numbers(ranks, "--ranks") if ranks else (default_ranks(kind),)
    element = dtype_name(dtype)
    worlds = [local_topology(kind, count, launcher=shared["launcher"]) for count in counts]
    points = plans.collective_points(words(ops), parse_sizes(sizes), worlds, dtype=element)
    plan = plans.plan(
        "What does a collective cost, by size and ranks?", points, passes=shared["passes"]
    )
    with settings_of(**shared) as settings, lead_or_follow(plan, settings) as mine:
        if mine is not None:
            show.measured(measure(*mine), as_json=as_json, show=show.collective_table)
