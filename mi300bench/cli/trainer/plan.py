"""mi300bench plan."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mi300bench.api.planning import Planned, PlannedStep, plan
from mi300bench.cli import show
from mi300bench.cli.options import json_option, store_option, store_settings
from mi300bench.published.assumptions import LEAST_SHARE, MOST_SHARE
from mi300bench.strategies.mesh.compile_step import BYTES_OF

OPTIONS = {
    "batch": "data.batch",
    "seq": "data.seq_len",
    "remat": "compute.remat",
    "rank": "lora.rank",
}
GB = 1e9
LONGEST_ERROR = 60
# A published run of this preset, with which the plan is compared.
PUBLISHED_PRESET, PUBLISHED_TOKENS_PER_SECOND = "405b", 35


@click.command("plan")
@click.argument("trainer")
@click.option("--preset", default="405b", show_default=True, help="Which model.")
@click.option(
    "--devices",
    type=int,
    default=8,
    show_default=True,
    help="Number of devices to plan for. No device is needed: they are virtual.",
)
@click.option(
    "--on",
    "device",
    default="mi300x",
    show_default=True,
    metavar="DEVICE",
    help="Device to plan for. Its published figures give the memory and the predicted seconds.",
)
@click.option(
    "--mesh",
    default="1,8,1",
    show_default=True,
    help="Mesh as dp,fsdp,mp; or all meshes, those that fit first and of these the fastest first.",
)
@click.option("--batch", type=int, help="Sequences per step. Default: the preset's.")
@click.option("--seq", type=int, help="Tokens per sequence. Default: the preset's.")
@click.option(
    "--remat",
    type=click.Choice(["none", "dots", "full"]),
    help="What the backward pass recomputes: nothing (none), all but matrix products (dots), or "
    "everything (full). Default: the preset's.",
)
@click.option("--rank", type=int, help="Rank of the LoRA adapters.")
@click.option(
    "--show-sharding",
    is_flag=True,
    help="Show which axis of the mesh shards each tensor, for the first mesh.",
)
@click.option("--fit", is_flag=True, help="Find the largest batch that fits, for the first mesh.")
@click.option(
    "--price",
    type=float,
    help="Price of a GPU per hour. Adds a column with the price of a million tokens.",
)
@click.option(
    "--curves",
    type=click.Path(path_type=Path, file_okay=False),
    help="Store with curves of JAX (mi300bench sweep run jax), which then predict the seconds.",
)
@click.option("--node", default="", help="Node in the store of --curves. Default: all.")
@store_option
@json_option
def command(
    *,
    trainer: str,
    preset: str,
    devices: int,
    device: str,
    mesh: str,
    show_sharding: bool,
    fit: bool,
    price: float | None,
    curves: Path | None,
    node: str,
    store: Path,
    as_json: bool,
    **given: Any,
) -> None:
    """Compile a training step of any size without its weights.

    Shows the memory, the communication and the computation of each device, and predicts the time.
    """
    planned = plan(
        trainer,
        preset=preset,
        mesh=mesh,
        devices=devices,
        keys={OPTIONS[name]: value for name, value in given.items() if value is not None},
        device=device,
        settings=store_settings(store, ""),
        is_fitted=fit,
        curves=curves,
        node=node,
    )
    tensors = planned.rows[0].step.figures.get("tensors", []) if show_sharding else []
    if as_json:
        first, *rest = (document(row, planned, price) for row in planned.rows)
        more = {"tensors": tensors} if show_sharding else {}
        click.echo(json.dumps([first | more, *rest]))
        return
    if show_sharding:
        show.table(
            ("tensor", "shape", "sharded by", "on a device"),
            [(path, _sizes(shape), spec, _sizes(local)) for path, shape, spec, local in tensors],
        )
    _table(planned, price)


def _sizes(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def document(row: PlannedStep, planned: Planned, price: float | None) -> dict[str, Any]:
    """Return a planned step as a JSON document."""
    step, figures, seconds = row.step, row.step.figures, row.seconds
    head = {
        "preset": planned.preset,
        "mesh": {"dp": step.mesh.dp, "fsdp": step.mesh.fsdp, "mp": step.mesh.mp},
        "batch": step.batch.global_batch,
        "seq": step.batch.seq_len,
        "recompute": planned.recompute,
    }
    if seconds is None:
        return head | {"error": step.error}
    low, high = row.tokens_per_second
    priced = {} if price is None else {"price_per_million_tokens": list(row.prices(price))}
    return (
        head
        | {
            "bytes_per_device": {name: figures[name] for name in BYTES_OF}
            | {"bound": step.bound, "limit": planned.limit},
            "fits": step.fits(planned.limit),
            "received_bytes": figures["received"],
            "collectives": figures["collectives"],
            "closed_form_bytes": dict(step.closed_form),
            "flop": step.flop,
            "flop_per_device": figures["flop"],
            "seconds": {
                "low": seconds.low,
                "high": seconds.high,
                "origin": "modelled",
                "source": "measured curves" if row.evidence else "published figures",
                "evidence": list(row.evidence),
            },
            "tokens_per_second": {"low": low, "high": high},
            "compile_s": figures["compile_s"],
        }
        | priced
    )


def _table(planned: Planned, price: float | None) -> None:
    """Print the plans in their order; a GB is 1e9 bytes."""
    first = planned.rows[0].step
    click.echo(
        f"# {planned.preset}, {first.batch.global_batch} x {first.batch.seq_len} tokens per step, "
        f"recomputation: {planned.recompute}; columns in GB per device; "
        f"one {planned.device.facts.name} has {planned.limit / GB:.1f} GB"
    )
    columns = (
        "dp,fsdp,mp weights adapters optimizer arguments bound fits wire closed step-s tokens/s"
    )
    head = (*columns.split(), *([] if price is None else ["per-1M-tokens"]))
    show.table(head, [_cells(row, planned, price, len(head)) for row in planned.rows])
    is_measured = any(row.evidence for row in planned.rows)
    source = (
        "measured curves of JAX"
        if is_measured
        else "published figures, with products at "
        f"{LEAST_SHARE:.0%} to {MOST_SHARE:.0%} of the peak"
    )
    click.echo(
        "arguments and wire are exact; bound is the most that a device needs, with the temporary "
        "memory as the CPU compiler plans it; closed is the communication by closed formulas"
    )
    click.echo(
        f"step-s is predicted from {source}; "
        "it ranges from communication that is all hidden to communication that is not hidden"
    )
    if planned.preset == PUBLISHED_PRESET and planned.rows[0].seconds is not None:
        for line in _published_comparison(planned.rows[0]):
            click.echo(line)


def _cells(
    row: PlannedStep, planned: Planned, price: float | None, width: int
) -> tuple[object, ...]:
    step, figures = row.step, row.step.figures
    if row.seconds is None:
        return (str(step.mesh), *["-"] * (width - 2), step.error[:LONGEST_ERROR])
    low, high = row.tokens_per_second
    priced = () if price is None else ("{:.2f} to {:.2f}".format(*row.prices(price)),)
    return (
        str(step.mesh),
        f"{figures['weights'] / GB:.2f}",
        f"{figures['adapters'] / GB:.3f}",
        f"{figures['optimizer'] / GB:.3f}",
        f"{figures['arguments'] / GB:.2f}",
        f"{step.bound / GB:.1f}",
        step.fits(planned.limit),
        f"{sum(figures['received'].values()) / GB:.1f}",
        f"{sum(step.closed_form.values()) / GB:.1f}",
        f"{row.seconds.low:.2f} to {row.seconds.high:.2f}",
        f"{low:.0f} to {high:.0f}",
        *priced,
    )


def _published_comparison(row: PlannedStep) -> list[str]:
    """Return lines that compare the plan with a published run of this model."""
    step, figures = row.step, row.step.figures
    extra = step.mesh.devices * (figures["adapters"] + figures["optimizer"])
    low, high = row.tokens_per_second
    tokens = PUBLISHED_TOKENS_PER_SECOND
    return [
        "A published run of this model (8 MI300X, eager, 16 x 64 tokens) reports "
        f"{tokens} tokens/s and 1200 GB, of which 400 GB are for adapters and optimizer.",
        f"Here adapters with AdamW take {extra / GB:.1f} GB on all devices together. "
        "By default JAX reserves 75 % of the memory as its pool at the start.",
        f"The compiled step needs at most {step.bound / GB:.1f} GB per device, "
        f"and {tokens} tokens/s are {tokens / high:.1%} to {tokens / low:.1%} of the prediction.",
    ]
