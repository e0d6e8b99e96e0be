"""mi300bench overlap."""

from typing import Any

import click

from mi300bench.api.measuring import measure_overlap
from mi300bench.cli import show
from mi300bench.cli.options import measuring_options, settings_of, shape_of, whole_numbers
from mi300bench.units import dtype_name, parse_sizes


@click.command("overlap")
@click.option("--sizes", default="1,8,64M", show_default=True, help="Sizes of the all-reduce.")
@click.option(
    "--shapes",
    multiple=True,
    default=("512x512x512",),
    show_default=True,
    metavar="MxNxK",
    help="Shape of the matrix products that run at the same time; K is the reduction. "
    "May be repeated.",
)
@click.option(
    "--ranks",
    default="",
    help="Numbers of local ranks, such as 2,4,8. Default: one per GPU, on a CPU one per core up to "
    "two. Under torchrun: the ranks that it started.",
)
@click.option(
    "--inflight",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="All-reduces that run at once. With gloo, DDP reduces two buckets at a time.",
)
@click.option("--dtype", default="float32", show_default=True, help="Data type of the products.")
@measuring_options
def command(
    *,
    sizes: str,
    shapes: tuple[str, ...],
    ranks: str,
    inflight: int,
    dtype: str,
    device: str,
    as_json: bool,
    **shared: Any,
) -> None:
    """Measure how much an all-reduce and matrix products slow each other."""
    with settings_of(**shared) as settings:
        measured = measure_overlap(
            settings,
            sizes=parse_sizes(sizes),
            shapes=[shape_of(shape) for shape in shapes],
            ranks=whole_numbers(ranks, "--ranks") if ranks else (),
            dtype=dtype_name(dtype),
            inflight=inflight,
            device=device,
        )
    show.measured(measured, as_json=as_json, show=show.overlap_table)
