"""mi300bench hbm: memory bandwidth."""

from typing import Any

import click

from mi300bench.cli import show
from mi300bench.cli.options import device_of, measuring_options, settings_of, words
from mi300bench.measurement import plans
from mi300bench.measurement.local_topology import local_topology
from mi300bench.measurement.measure import measure
from mi300bench.units import GIB, MIB, dtype_name, parse_sizes


@click.command("hbm")
@click.option("--patterns", default="read,write,copy,scale,add,triad", show_default=True,
              help=f"Of {', '.join(plans.PATTERNS)}.")  # fmt: skip
@click.option(
    "--sizes",
    default="",
    help="Bytes per array, such as 512MiB or 64K:1G:x4; default one far beyond the cache.",
)
@click.option("--dtype", default="float32", show_default=True, help="Element type.")
@click.option(
    "--variants",
    default="op,compiled",
    show_default=True,
    help="torch's operator, the compiled kernel, or both.",
)
@click.option(
    "--row-bytes", default="256,4096", show_default=True, help="Row widths of gather and scatter."
)
@measuring_options
def command(
    *,
    patterns: str,
    sizes: str,
    dtype: str,
    variants: str,
    row_bytes: str,
    device: str,
    as_json: bool,
    **shared: Any,
) -> None:
    """Measure memory bandwidth by pattern and array size."""
    kind = device_of(device)
    chosen = parse_sizes(sizes) if sizes else ((512 * MIB if kind == "cpu" else 4 * GIB),)
    element = dtype_name(dtype)
    points = plans.memory_points(
        words(patterns),
        chosen,
        local_topology(kind, 1),
        dtype=element,
        variants=words(variants),
        row_bytes=parse_sizes(row_bytes),
    )
    plan = plans.plan(
        "What does the memory sustain, by pattern and footprint?", points, passes=shared["passes"]
    )
    with settings_of(**shared) as settings:
        show.measured(measure(plan, settings), as_json=as_json, show=show.memory_table)
