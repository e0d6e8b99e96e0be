"""mi300bench autotune."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from mi300bench.cli import explain
from mi300bench.cli.options import device_of, measuring_options, settings_of
from mi300bench.errors import ProbeError
from mi300bench.flow import trainers, tuning
from mi300bench.flow.autotune import autotune
from mi300bench.flow.reporting import write_report
from mi300bench.flow.tuning import Job, Tuned
from mi300bench.flow.world import default_ranks, world
from mi300bench.schema import config as tuned_config
from mi300bench.schema.config import TunedConfig
from mi300bench.units import parse_duration

Function = TypeVar("Function", bound=Callable[..., Any])
DEFAULT_BUDGET = "5m"


def job_options(function: Function) -> Function:
    """Add the options that say what is tuned."""
    options = [
        click.argument("trainer"),
        click.option("--preset", default="small", show_default=True, help="Which model."),
        click.option("--seq-len", type=int, help="Tokens of a sequence; default the preset's."),
        click.option("--micro-batch", type=int, help="Sequences per rank; default the preset's."),
        click.option("--ranks", type=int, help="Ranks; default one a GPU, or one a core up to two."),
        click.option("--rounds", type=int, default=3, show_default=True, help="Fresh runs of each side to confirm the pick."),
        click.option("--candidates", type=int, default=2, show_default=True, help="How many picks get fresh runs."),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def job_of(options: dict[str, Any]) -> tuple[Job, dict[str, Any]]:
    """Return the job that the options state, and the options that remain."""
    rest = dict(options)
    trainer, preset, ranks = (rest.pop(name) for name in ("trainer", "preset", "ranks"))
    config = trainers.preset_config(trainer, preset)
    override = trainers.module(trainer, "config").override
    for name in ("seq_len", "micro_batch"):
        if (value := rest.pop(name)) is not None:
            config = override(config, f"data.{name}", value)
    kind = device_of(rest.pop("device"))
    place = world(kind, ranks if ranks is not None else default_ranks(kind), launcher=rest["launcher"])
    rounds, candidates = rest.pop("rounds"), rest.pop("candidates")
    return Job(trainer=trainer, config=config, world=place, rounds=rounds, candidates=candidates), rest


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
