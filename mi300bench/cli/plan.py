"""mi300bench plan."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from mi300bench.cli import show
from mi300bench.cli.options import json_option, say, store_option
from mi300bench.errors import PlanError
from mi300bench.measurement.settings import Settings
from mi300bench.schema.record import Measurement
from mi300bench.store.reader import read_records
from mi300bench.strategies.mesh import compile
from mi300bench.strategies.mesh.compile import Plan
from mi300bench.strategies.mesh.traffic import meshes
from mi300bench.trainers import registry

SECONDS_PER_HOUR = 3600.0


def parse_mesh(text: str, devices: int) -> list[tuple[int, int, int]]:
    """Return the meshes that `text` names: ``dp,fsdp,mp`` or ``all`` of so many devices."""
    if devices < 1:
        raise PlanError(f"--devices {devices} are none", hint="--devices 8")
    if text == "all":
        return [(mesh.dp, mesh.fsdp, mesh.mp) for mesh in meshes(devices)]
    if not re.fullmatch(r"\d+,\d+,\d+", text):
        raise PlanError(f"{text!r} is no mesh", hint="--mesh dp,fsdp,mp such as 1,8,1, or all")
    dp, fsdp, mp = (int(part) for part in text.split(","))
    if dp * fsdp * mp != devices:
        raise PlanError(
            f"a mesh of {text} covers {dp * fsdp * mp} devices of {devices}",
            hint=f"a product of {devices}, or all",
        )
    return [(dp, fsdp, mp)]


@click.command("plan")
@click.argument("trainer")
@click.option("--preset", default="405b", show_default=True, help="Which model.")
@click.option(
    "--devices",
    type=int,
    default=8,
    show_default=True,
    help="Devices to plan for; virtual, none is needed.",
)
@click.option(
    "--mesh",
    "mesh",
    default="1,8,1",
    show_default=True,
    help="dp,fsdp,mp, or all: what fits first, then by seconds.",
)
@click.option("--batch", type=int, help="Sequences a step; default the preset's.")
@click.option("--seq", type=int, help="Tokens of a sequence; default the preset's.")
@click.option(
    "--remat",
    type=click.Choice(["none", "dots", "full"]),
    help="What is kept for the backward pass.",
)
@click.option("--rank", type=int, help="Rank of the adapters.")
@click.option(
    "--show-sharding",
    is_flag=True,
    help="Show of every tensor which axis of the mesh cuts it, for the first mesh.",
)
@click.option(
    "--fit", is_flag=True, help="Find the largest batch at --seq that fits, for the first mesh."
)
@click.option(
    "--price", type=float, help="What a GPU costs an hour: adds the cost of a million tokens."
)
@click.option(
    "--curves",
    type=click.Path(path_type=Path, file_okay=False),
    help="Predict seconds from this store's curves of JAX.",
)
@click.option("--node", default="", help="Whose curves, where that store has several nodes.")
@store_option
@json_option
def command(
    *, trainer: str, preset: str, devices: int, mesh: str, batch: int | None, seq: int | None, remat: str | None, rank: int | None,
    show_sharding: bool, fit: bool, price: float | None, curves: Path | None, node: str, store: Path, as_json: bool,
) -> None:  # fmt: skip
    """Compile a training step of any size without its weights: what each device holds, sends and computes."""
    compile.require_planner(trainer)
    if fit and batch is not None:
        raise PlanError("--fit finds the batch itself", hint="leave out --batch, or --fit")
    chosen = {"data.batch": batch, "data.seq_len": seq, "compute.remat": remat, "lora.rank": rank}
    wanted = {key: value for key, value in chosen.items() if value is not None}
    configs = _configs(trainer, preset, wanted, parse_mesh(mesh, devices), is_all=mesh == "all")
    if fit:
        best = compile.largest_that_fits(trainer, configs[0], compile.memory_bytes(), say)
        if best is None:
            raise PlanError(
                "not even one sequence a group fits",
                hint="more devices, a shorter --seq, --remat full",
            )
        plans = [best]
    else:
        plans = list(compile.plan_all(trainer, configs))
        if all(plan.error for plan in plans):
            raise PlanError(plans[0].error, hint="--mesh all lists the meshes that can be")
    compile.keep(trainer, plans, Settings(store=store, say=say))
    if curves is not None:
        records = [record for record in read_records(curves, warn=say) if node in ("", record.node)]
        plans = [_with_curves(trainer, plan, records) for plan in plans]
    plans.sort(key=_order)
    if as_json:
        tensors = {"tensors": plans[0].found["tensors"]} if show_sharding else {}
        first, *rest = (document(plan, price) for plan in plans)
        click.echo(json.dumps([first | tensors, *rest]))
        return
    if show_sharding:
        rows = [
            (path, _sizes(shape), spec, _sizes(local))
            for path, shape, spec, local in plans[0].found["tensors"]
        ]
        show.table(("tensor", "shape", "cut by", "on a device"), rows)
    _table(plans, price)


def _sizes(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _configs(
    trainer: str,
    preset: str,
    wanted: dict[str, Any],
    chosen: list[tuple[int, int, int]],
    *,
    is_all: bool,
) -> list[Any]:
    """Return the config of each mesh that takes the batch; where one mesh was named, raise why it does not."""
    base, override, configs = (
        registry.preset_config(trainer, preset),
        registry.module(trainer, "config").override_all,
        [],
    )
    for dp, fsdp, mp in chosen:
        try:
            configs.append(
                override(base, wanted | {"mesh.dp": dp, "mesh.fsdp": fsdp, "mesh.mp": mp})
            )
        except PlanError as cause:
            if not is_all:
                raise
            say(f"{dp},{fsdp},{mp}: {cause}")
    if not configs:
        raise PlanError("no mesh takes this batch", hint="a larger --batch")
    return configs


def _order(plan: Plan) -> tuple[int, float]:
    """Return where a plan stands: what fits first, of those the fastest predicted."""
    if plan.seconds is None:
        return 3, 0.0
    return ("yes", "perhaps", "no").index(plan.fits(compile.memory_bytes())), plan.seconds.mid


def _with_curves(trainer: str, plan: Plan, records: list[Measurement]) -> Plan:
    """Return the plan with its seconds from measured curves."""
    if plan.error:
        return plan
    seconds, evidence = compile.measured_seconds(trainer, plan, records)
    return replace(plan, seconds=seconds, evidence=evidence)


def document(plan: Plan, price: float | None) -> dict[str, Any]:
    """Return a plan as plain values."""
    config = plan.config
    head = {
        "preset": config.preset,
        "mesh": {"dp": config.mesh.dp, "fsdp": config.mesh.fsdp, "mp": config.mesh.mp},
        "batch": config.data.batch,
        "seq": config.data.seq_len,
        "remat": config.compute.remat,
    }
    if plan.error or plan.seconds is None:
        return head | {"error": plan.error}
    limit = compile.memory_bytes()
    return (
        head
        | {
            "bytes_per_device": {
                key: plan.found[key]
                for key in (
                    "weights",
                    "adapters",
                    "optimizer",
                    "arguments",
                    "output",
                    "alias",
                    "temp",
                )
            }
            | {"bound": plan.bound, "limit": limit},
            "fits": plan.fits(limit),
            "received_bytes": plan.found["received"],
            "collectives": plan.found["collectives"],
            "closed_form_bytes": {
                "gathered": plan.gathered,
                "reduced": plan.reduced,
                "gradients": plan.gradients,
            },
            "flop": plan.flop,
            "flop_per_device": plan.found["flop"],
            "seconds": {
                "low": plan.seconds.low,
                "high": plan.seconds.high,
                "origin": "modelled",
                "source": "measured curves" if plan.evidence else "published figures",
                "evidence": list(plan.evidence),
            },
            "tokens_per_second": {
                "low": plan.tokens / plan.seconds.high,
                "high": plan.tokens / plan.seconds.low,
            },
            "compile_s": plan.found["compile_s"],
        }
        | ({} if price is None else {"price_per_million_tokens": list(_prices(plan, price))})
    )


def _prices(plan: Plan, price: float) -> tuple[float, float]:
    """Return the lowest and highest cost of a million tokens."""
    assert plan.seconds is not None
    hourly = price * plan.config.mesh.devices / SECONDS_PER_HOUR * 1e6 / plan.tokens
    return hourly * plan.seconds.low, hourly * plan.seconds.high


def _table(plans: list[Plan], price: float | None) -> None:
    """Print the plans in their order; GB are 1e9 bytes."""
    limit = compile.memory_bytes()
    first = plans[0].config
    click.echo(
        f"# {first.preset}, {first.data.batch} x {first.data.seq_len} tokens a step, remat {first.compute.remat}; GB a device; "
        f"a device has {limit / 1e9:.1f}"
    )
    columns = (
        "dp,fsdp,mp weights adapters optimizer arguments bound fits wire closed step-s tokens/s"
    )
    head = (*columns.split(), *([] if price is None else ["per-1M-tokens"]))
    rows: list[tuple[object, ...]] = []
    for plan in plans:
        mesh = f"{plan.config.mesh.dp},{plan.config.mesh.fsdp},{plan.config.mesh.mp}"
        if plan.seconds is None:
            rows.append((mesh, *["-"] * (len(head) - 2), plan.error[:60]))
            continue
        found, received = plan.found, plan.found["received"]
        cost = () if price is None else ("{:.2f} to {:.2f}".format(*_prices(plan, price)),)
        rows.append(
            (mesh, f"{found['weights'] / 1e9:.2f}", f"{found['adapters'] / 1e9:.3f}", f"{found['optimizer'] / 1e9:.3f}",
             f"{found['arguments'] / 1e9:.2f}", f"{plan.bound / 1e9:.1f}", plan.fits(limit), f"{sum(received.values()) / 1e9:.1f}",
             f"{(plan.gathered + plan.reduced + plan.gradients) / 1e9:.1f}", f"{plan.seconds.low:.2f} to {plan.seconds.high:.2f}",
             f"{plan.tokens / plan.seconds.high:.0f} to {plan.tokens / plan.seconds.low:.0f}", *cost)
        )  # fmt: skip
    show.table(head, rows)
    source = (
        "curves that JAX measured, communication from hidden to not hidden at all."
        if any(plan.evidence for plan in plans)
        else "published figures: products at 8 to 51 % of the peak, communication from hidden to not hidden at all."
    )
    click.echo(
        "arguments and bytes on the wire are exact; the bound has the CPU compiler's temporary bytes; seconds are modelled from"
    )
    click.echo(source)
    if first.preset == "405b":
        for line in _seed(plans[0]):
            click.echo(line)


def _seed(plan: Plan) -> list[str]:
    """Return what the plan says of a published run of this model: 8 MI300X, eager, 35 tokens/s, 400 GB beside the weights."""
    if plan.seconds is None:
        return []
    devices, found = plan.config.mesh.devices, plan.found
    extra = devices * (found["adapters"] + found["optimizer"])
    low, high = plan.tokens / plan.seconds.high, plan.tokens / plan.seconds.low
    return [
        "beside a published run of this model (8 MI300X, eager, 16 x 64 tokens, 35 tokens/s, 1200 GB, of them 400 for adapters",
        f"and optimizer): adapters with AdamW take {extra / 1e9:.1f} GB on all devices together; three quarters of a node's memory",
        "are what JAX takes as its pool at the start unless told not to. The compiled step needs at most",
        f"{plan.bound / 1e9:.1f} GB a device, and 35 tokens/s are {35 / high:.1%} to {35 / low:.1%} of what is predicted here.",
    ]
