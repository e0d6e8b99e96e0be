"""mi300bench autotune."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from mi300bench.api.reporting import write_report
from mi300bench.cli import explain
from mi300bench.cli.options import device_of, measuring_options, settings_of, words
from mi300bench.errors import PlanError, ProbeError
from mi300bench.measurement.local_topology import default_ranks, memory_limit, world
from mi300bench.runner.external_launcher import is_joined
from mi300bench.schema import config as tuned_config
from mi300bench.schema.config import TunedConfig
from mi300bench.schema.record import World
from mi300bench.strategies.ddp import predictor
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh import predictor
from mi300bench.strategies.mesh.job import MeshJob
from mi300bench.trainers import registry
from mi300bench.tuning.autotune import autotune
from mi300bench.tuning.result import Tuned, write
from mi300bench.units import dtype_name, parse_duration, parse_size

Function = TypeVar("Function", bound=Callable[..., Any])
DEFAULT_BUDGET = "5m"
DEFAULT_PRESETS = {"zaya1": "small", "lora405b": "bench"}
# On a CPU a mesh is tuned for as many virtual devices as a node has GPUs.
VIRTUAL_DEVICES = 8


def job_options(function: Function) -> Function:
    """Add the options that say what is tuned."""
    options = [
        click.argument("trainer"),
        click.option("--preset", help="Which model; default small for zaya1, bench for lora405b."),
        click.option("--seq-len", type=int, help="Tokens of a sequence; default the preset's."),
        click.option("--micro-batch", type=int, help="zaya1: sequences per rank; default the preset's."),
        click.option("--batch", type=int, help="lora405b: sequences of a step over all devices; default the preset's."),
        click.option("--accumulate", type=int, help="Parts of a step, one after the other; with zaya1 it sets the global batch."),
        click.option("--precision", "precisions", multiple=True, help="Weigh this precision too: bf16, fp32. May be repeated."),
        click.option("--keep-shapes/--tune-shapes", default=False, show_default="--tune-shapes",
                     help="Leave the model's shapes (lora405b: the length of sequences) alone, as a model that exists needs it."),
        click.option("--param-tolerance", type=float,
                     help="zaya1: how far shapes may move the active and the total parameters, relative; default 0.02."),
        click.option("--memory-limit", default="", help="Bytes that a rank may hold; default what the machine has, shared out."),
        click.option("--ranks", type=int,
                     help="Ranks, or devices of the mesh; default one a GPU; on a CPU one a core up to two, or 8 virtual devices."),
        click.option("--only", default="", help=f"Knobs to weigh; zaya1: {', '.join(predictor.KNOBS)}; "
                     f"lora405b: {', '.join(predictor.KNOBS)}; default all."),
        click.option("--rounds", type=int, default=3, show_default=True, help="Fresh runs of each side to confirm the pick."),
        click.option("--candidates", type=int, default=2, show_default=True, help="How many picks get fresh runs."),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def job_of(
    options: dict[str, Any], *, is_absent: bool = False
) -> tuple[Job | MeshJob, dict[str, Any]]:
    """Return the job that the options state, and the options that remain; `is_absent`: for a node that is not here."""
    rest = dict(options)
    trainer, preset, ranks = (rest.pop(name) for name in ("trainer", "preset", "ranks"))
    is_meshed = trainer in registry.SINGLE_PROCESS
    for name in ("micro_batch", "param_tolerance") if is_meshed else ("batch",):
        if rest[name] is not None:
            raise PlanError(
                f"--{name.replace('_', '-')} means nothing to {trainer}",
                hint="see mi300bench autotune --help",
            )
    config = registry.preset_config(trainer, preset or DEFAULT_PRESETS.get(trainer, ""))
    given = {
        f"data.{name}": rest.pop(name) for name in ("seq_len", "micro_batch", "batch", "accumulate")
    }
    kind, limit, tolerance = (
        device_of(rest.pop("device")),
        rest.pop("memory_limit"),
        rest.pop("param_tolerance"),
    )
    shared: dict[str, Any] = {
        "trainer": trainer,
        **{name: rest.pop(name) for name in ("rounds", "candidates", "keep_shapes")},
        "only": words(rest.pop("only")),
        "precisions": tuple(dtype_name(name) for name in rest.pop("precisions")),
    }
    keys = {key: value for key, value in given.items() if value is not None}
    for name, value in {**keys, "ranks": ranks}.items():
        if value is not None and value < 1:
            said = name.rpartition(".")[2].replace("_", "-")
            raise PlanError(f"--{said} {value} makes no step", hint=f"--{said} of at least 1")
    if is_meshed:
        place, config = mesh_place(
            trainer, config, keys, kind=kind, devices=ranks, is_absent=is_absent
        )
        most = parse_size(limit) if limit else memory_limit(place, is_absent=is_absent)
        return MeshJob(config=config, world=place, memory_limit=most, **shared), rest
    config = registry.module(trainer, "config").override_all(config, keys)
    place = world(
        kind,
        ranks if ranks is not None else default_ranks(kind),
        launcher=rest["launcher"],
        is_absent=is_absent,
    )
    job = Job(
        config=config,
        world=place,
        memory_limit=parse_size(limit) if limit else memory_limit(place, is_absent=is_absent),
        # Ranks that were asked for, or that a launcher spreads over machines, are not regrouped.
        may_regroup=ranks is None and not rest["launcher"] and not is_joined(),
        **shared,
        **({} if tolerance is None else {"param_tolerance": tolerance}),
    )
    return job, rest


def mesh_place(
    trainer: str,
    config: Any,
    keys: dict[str, Any],
    *,
    kind: str,
    devices: int | None,
    is_absent: bool,
) -> tuple[World, Any]:
    """Return the world of a mesh, and the config on its default mesh: as many fsdp groups as the batch has sequences for."""
    count = (
        devices
        if devices is not None
        else (default_ranks(kind) if kind != "cpu" else VIRTUAL_DEVICES)
    )
    place = replace(world(kind, count, is_absent=is_absent or kind == "cpu"), framework="jax")
    data = config.data
    sequences = keys.get("data.batch", data.batch) // keys.get("data.accumulate", data.accumulate)
    fsdp = math.gcd(max(1, sequences), count)
    mesh = {"mesh.dp": 1, "mesh.fsdp": fsdp, "mesh.mp": count // fsdp}
    chosen = registry.module(trainer, "config").override_all(config, keys | mesh)
    if not registry.module(trainer, "shapes").divides(chosen):
        raise PlanError(
            f"{sequences} sequences on {count} devices leave mp={count // fsdp}, which does not divide the model",
            hint=f"--batch a multiple of {count}, or fewer --ranks",
        )
    return place, chosen


def print_tuned(tuned: TunedConfig, out: Path, *, as_json: bool) -> None:
    """Print the config for people or programs, and where it is."""
    if as_json:
        click.echo(json.dumps(tuned_config.to_document(tuned)))
        return
    explain.head(tuned)
    for name, choice in tuned.choices.items():
        click.echo(f"{name} = {choice.value}   (default: {choice.default})\n  {choice.why}")
    click.echo(f"tuned config: {out}   (why: mi300bench explain {out})")


def raise_for_failures(tuned: Tuned) -> None:
    """Raise where points failed on the way: config and report are written, and the exit code says that not all went well."""
    if tuned.failures:
        raise ProbeError(
            f"{len(tuned.failures)} measurement(s) gave no result: {tuned.failures[0]}",
            hint='the rest stands; mi300bench query "SELECT probe, reason FROM records" shows all',
        )


@click.command("autotune")
@job_options
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path(), show_default="here",
              help="Folder for tuned.toml and report.html.")  # fmt: skip
@measuring_options
@click.pass_context
def command(ctx: click.Context, /, *, out: Path, as_json: bool, **options: Any) -> None:
    """Measure this machine, tune the trainer from it, confirm the pick, write config and report.

    Without --passes a budget under 15m measures each point in one process, and says so.
    """
    options["budget"] = options["budget"] or DEFAULT_BUDGET
    is_given = ctx.get_parameter_source("passes") is click.core.ParameterSource.COMMANDLINE
    passes = options["passes"] if is_given else None
    job, shared = job_of(options)
    path, page = out / "tuned.toml", out / "report.html"
    with settings_of(**shared) as settings:
        tuned = autotune(
            job,
            replace(settings, deadline=None),
            budget_s=parse_duration(options["budget"]),
            passes=passes,
        )
        write(tuned.config, path)
        write_report(
            settings.store, page, tuned=tuned.config, node=settings.node, warn=settings.say
        )
    print_tuned(tuned.config, path, as_json=as_json)
    click.echo(f"report: {page}", err=as_json)
    raise_for_failures(tuned)
