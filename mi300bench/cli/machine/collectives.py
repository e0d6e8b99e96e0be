"""mi300bench collectives."""

from typing import Any

import click

from mi300bench.api.measuring import measure_collectives
from mi300bench.cli import show
from mi300bench.cli.options import measuring_options, settings_of, whole_numbers, words
from mi300bench.physics import COLLECTIVES
from mi300bench.units import dtype_name, parse_sizes


@click.command("collectives")
@click.option(
    "--ops",
    default="all_reduce,all_gather,reduce_scatter,all_to_all",
    show_default=True,
    help=f"Collectives, separated by commas: {', '.join(COLLECTIVES)}.",
)
@click.option(
    "--sizes",
    default="1K:64M:x8",
    show_default=True,
    help="Total message sizes: a list such as 1,16,256MB or a range such as 8:128M:x2.",
)
@click.option(
    "--ranks",
    default="",
    help="Numbers of local ranks, such as 2,4,8. Default: one per GPU, on a CPU one per core up to "
    "two. Under torchrun: the ranks that it started.",
)
@click.option("--dtype", default="float32", show_default=True, help="Data type.")
@measuring_options
def command(
    *, ops: str, sizes: str, ranks: str, dtype: str, device: str, as_json: bool, **shared: Any
) -> None:
    """Measure collectives by size and number of ranks, and check their results.

    Starts its own ranks. Under torchrun it measures in the ranks that torchrun started, in one
    pass: start the same command on every node.
    """
    with settings_of(**shared) as settings:
        measured = measure_collectives(
            settings,
            ops=words(ops),
            sizes=parse_sizes(sizes),
            ranks=whole_numbers(ranks, "--ranks") if ranks else (),
            dtype=dtype_name(dtype),
            device=device,
        )
    show.measured(measured, as_json=as_json, show=show.collective_table)
