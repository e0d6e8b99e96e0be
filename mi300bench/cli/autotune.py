"""mi300bench autotune."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from mi300bench.cli import explain
from mi300bench.cli.options import device_of, measuring_options, settings_of, words
from mi300bench.errors import ProbeError
from mi300bench.flow import trainers, tuning
from mi300bench.flow.autotune import autotune
from mi300bench.flow.job import Job
from mi300bench.flow.reporting import write_report
from mi300bench.flow.tuning import Tuned
from mi300bench.flow.world import default_ranks, memory_limit, world
from mi300bench.runner.joined import is_joined
from mi300bench.schema import config as tuned_config
from mi300bench.schema.config import TunedConfig
from mi300bench.tune.zaya1 import KNOBS
from mi300bench.units import dtype_name, parse_duration, parse_size

Function = TypeVar("Function", bound=Callable[..., Any])
DEFAULT_BUDGET = "5m"


def job_options(function: Function) -> Function:
    """Add the options that say what is tuned."""
    options = [
        click.argument("trainer"),
        click.option("--preset", default="small", show_default=True, help="Which model."),
        click.option("--seq-len", type=int, help="Tokens of a sequence; default the preset's."),
        click.option("--micro-batch", type=int, help="Sequences per rank; default the preset's."),
        click.option("--accumulate", type=int, help="Micro-batches of a step; with --micro-batch and --ranks the global batch."),
        click.option("--precision", "precisions", multiple=True, help="Weigh this precision too: bf16, fp32. May be repeated."),
        click.option("--keep-shapes/--tune-shapes", default=False, show_default="--tune-shapes",
                     help="Leave the model's shapes alone, as a model that exists needs it."),
        click.option("--param-tolerance", type=float, default=0.02, show_default=True,
                     help="How far shapes may move the active and the total parameters, relative."),
        click.option("--memory-limit", default="", help="Bytes that a rank may hold; default what the machine has, shared out."),
        click.option("--ranks", type=int, help="Ranks; default one a GPU, or one a core up to two."),
        click.option("--only", default="", help=f"Knobs to weigh, of {', '.join(KNOBS)}; default all."),
        click.option("--rounds", type=int, default=3, show_default=True, help="Fresh runs of each side to confirm the pick."),
        click.option("--candidates", type=int, default=2, show_default=True, help="How many picks get fresh runs."),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def job_of(options: dict[str, Any], *, is_absent: bool = False) -> tuple[Job, dict[str, Any]]:
    """Return the job that the options state, and the options that remain; `is_absent`: for a node that is not here."""
    rest = dict(options)
    trainer, preset, ranks = (rest.pop(name) for name in ("trainer", "preset", "ranks"))
    config = trainers.preset_config(trainer, preset)
    override = trainers.module(trainer, "config").override
    for name in ("seq_len", "micro_batch", "accumulate"):
        if (value := rest.pop(name)) is not None:
            config = override(config, f"data.{name}", value)
    kind = device_of(rest.pop("device"))
    place = world(kind, ranks if ranks is not None else default_ranks(kind), launcher=rest["launcher"], is_absent=is_absent)
    limit = rest.pop("memory_limit")
    job = Job(
        trainer=trainer,
        config=config,
        world=place,
        rounds=rest.pop("rounds"),
        candidates=rest.pop("candidates"),
        memory_limit=parse_size(limit) if limit else memory_limit(place, is_absent=is_absent),
        # Ranks that were asked for, or that a launcher spreads over machines, are not regrouped.
        may_regroup=ranks is None and not rest["launcher"] and not is_joined(),
        keep_shapes=rest.pop("keep_shapes"),
        param_tolerance=rest.pop("param_tolerance"),
        only=words(rest.pop("only")) if rest["only"] else tuple(rest.pop("only")),
        precisions=tuple(dtype_name(name) for name in rest.pop("precisions")),
    )
    return job, rest


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
        tuned = autotune(job, replace(settings, deadline=None), budget_s=parse_duration(options["budget"]), passes=passes)
        tuning.write(tuned.config, path)
        write_report(settings.store, page, tuned=tuned.config, node=settings.node, warn=settings.say)
    print_tuned(tuned.config, path, as_json=as_json)
    click.echo(f"report: {page}", err=as_json)
    raise_for_failures(tuned)
