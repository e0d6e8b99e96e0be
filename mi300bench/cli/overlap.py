"""mi300bench overlap."""

from typing import Any

import click

from mi300bench.cli import show
from mi300bench.cli.options import device_of, measuring_options, settings_of, whole_numbers
from mi300bench.errors import PlanError
from mi300bench.measurement import plans
from mi300bench.measurement.follow import lead_or_follow
from mi300bench.measurement.local_topology import default_ranks, local_topology
from mi300bench.measurement.measure import measure
from mi300bench.units import dtype_name, parse_sizes


@click.command("overlap")
@click.option("--sizes", default="1,8,64M", show_default=True, help="Sizes of the all-reduce.")
@click.option("--shapes", multiple=True, default=("512x512x512",), show_default=True, metavar="MxNxK",
              help="Products beside it, K the reduction; may be repeated.")  # fmt: skip
@click.option("--ranks", default="", help="Number of local ranks; under torchrun: its own group.")
@click.option("--inflight", type=click.IntRange(min=1), default=1, show_default=True,
              help="All-reduces at once; gloo runs two of DDP's buckets at a time.")  # fmt: skip
@click.option("--dtype", default="float32", show_default=True, help="Element type of the products.")
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
    """Measure an all-reduce beside matrix products: how much each slows the other."""
    kind = device_of(device)
    counts = whole_numbers(ranks, "--ranks") if ranks else (default_ranks(kind),)
    element = dtype_name(dtype)
    triples = [_triple(shape) for shape in shapes]
    points = [
        point
        for count in counts
        for point in plans.overlap_points(
            parse_sizes(sizes),
            triples,
            local_topology(kind, count, launcher=shared["launcher"]),
            dtype=element,
            inflight=inflight,
        )
    ]
    plan = plans.plan(
        "How much do communication and computation slow each other?",
        points,
        passes=shared["passes"],
    )
    with settings_of(**shared) as settings, lead_or_follow(plan, settings) as mine:
        if mine is not None:
            show.measured(measure(*mine), as_json=as_json, show=show.overlap_table)


def _triple(text: str) -> tuple[int, int, int]:
    parts = text.lower().split("x")
    if len(parts) != 3 or not all(part.isdigit() and int(part) for part in parts):
        raise PlanError(f"{text!r} is no shape", hint="--shapes 512x512x512, which is MxNxK")
    m, n, k = (int(part) for part in parts)
    return m, n, k
