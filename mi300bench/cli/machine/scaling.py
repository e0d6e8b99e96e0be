"""mi300bench scaling."""

from collections.abc import Sequence
from typing import Any

import click

from mi300bench.api.scaling import measure_scaling, scaling_rows
from mi300bench.cli import show
from mi300bench.cli.options import measuring_options, settings_of, whole_numbers
from mi300bench.schema.record import Measurement
from mi300bench.units import Unit, format_quantity


@click.command("scaling")
@click.argument("trainer")
@click.option("--preset", default="tiny", show_default=True, help="Which model.")
@click.option(
    "--devices",
    default="",
    help="Numbers of devices, such as 1,2,4,8. Default: 1, 2, 4, ... up to all GPUs, "
    "on a CPU up to 8.",
)
@click.option(
    "--batch",
    type=int,
    help="Sequences per device, or with --strong in all. Default: the preset's.",
)
@click.option(
    "--strong",
    is_flag=True,
    help="Strong scaling: the same batch for any number of devices, instead of per device.",
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
    """Measure a trainer's step on 1, 2, 4, ... devices, and the efficiency of each number.

    The devices of a CPU are virtual and share its cores. Their records are labelled emulated: their
    efficiency shows the overhead of the program, not how hardware scales.
    """
    with settings_of(**shared) as settings:
        measured = measure_scaling(
            trainer,
            settings,
            preset=preset,
            devices=whole_numbers(devices, "--devices") if devices else (),
            batch=batch,
            is_strong=strong,
            device=device,
        )
    show.measured(measured, as_json=as_json, show=_table)


def _table(records: Sequence[Measurement]) -> None:
    rows = scaling_rows(records)
    show.table(
        (
            "devices",
            "tokens",
            "step",
            "tokens/s",
            f"efficiency (of {rows[0].devices} device(s): 100%)",
            "origin",
        ),
        [
            (
                row.devices,
                row.tokens,
                format_quantity(row.seconds.mid, Unit.SECOND),
                f"{row.tokens_per_second:.0f}",
                f"{row.efficiency.mid:.1%} ({row.efficiency.low:.1%} to {row.efficiency.high:.1%})",
                row.origin,
            )
            for row in rows
        ],
    )
