"""mi300bench hbm: memory bandwidth."""

from typing import Any

import click

from mi300bench.api.measuring import measure_memory
from mi300bench.cli import show
from mi300bench.cli.options import measuring_options, settings_of, words
from mi300bench.measurement.plans import PATTERNS
from mi300bench.units import dtype_name, parse_sizes


@click.command("hbm")
@click.option(
    "--patterns",
    default="read,write,copy,scale,add,triad",
    show_default=True,
    help=f"Access patterns, separated by commas: {', '.join(PATTERNS)}.",
)
@click.option(
    "--sizes",
    default="",
    help="Bytes per array: a list such as 64MiB,512MiB or a range such as 64K:1G:x4. "
    "Default: one size far larger than the last-level cache.",
)
@click.option("--dtype", default="float32", show_default=True, help="Data type.")
@click.option(
    "--variants",
    default="op,compiled",
    show_default=True,
    help="op is torch's operator, compiled is our compiled kernel.",
)
@click.option(
    "--row-bytes",
    default="256,4096",
    show_default=True,
    help="Bytes per row, for the patterns gather and scatter.",
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
    """Measure memory bandwidth by access pattern and array size."""
    with settings_of(**shared) as settings:
        measured = measure_memory(
            settings,
            patterns=words(patterns),
            sizes=parse_sizes(sizes) if sizes else (),
            dtype=dtype_name(dtype),
            variants=words(variants),
            row_bytes=parse_sizes(row_bytes),
            device=device,
        )
    show.measured(measured, as_json=as_json, show=show.memory_table)
