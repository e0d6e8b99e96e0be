"""mi300bench autotune."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from mi300bench.api.jobs import JobOptions, autotune, job_from, write
from mi300bench.api.reporting import write_report
from mi300bench.cli import explain
from mi300bench.cli.options import measuring_options, settings_of, words
from mi300bench.errors import ProbeError
from mi300bench.schema import config as tuned_config
from mi300bench.schema.config import TunedConfig
from mi300bench.trainers.registry import names, spec_of
from mi300bench.tuning.result import Tuned
from mi300bench.units import dtype_name, parse_duration, parse_size

Function = TypeVar("Function", bound=Callable[..., Any])
DEFAULT_BUDGET = "5m"
SIZES = ("seq_len", "micro_batch", "batch", "accumulate")


def _having(option: str) -> str:
    """Return the trainers that have an option of the batch."""
    return ", ".join(name for name in names() if option in spec_of(name).options)


def _knobs() -> str:
    return "; ".join(f"{name}: {', '.join(spec_of(name).knob_names)}" for name in names())


def _presets() -> str:
    return ", ".join(f"{spec_of(name).default_presets['cpu']} for {name}" for name in names())


def job_options(function: Function) -> Function:
    """Add the options that say what is tuned."""
    shaped = ", ".join(name for name in names() if spec_of(name).has_model_shapes)
    options = [
        click.argument("trainer"),
        click.option("--preset", default="", help=f"Which model; default {_presets()}."),
        click.option("--seq-len", type=int, help="Tokens of a sequence; default the preset's."),
        click.option(
            "--micro-batch",
            type=int,
            help=f"Sequences of a rank at once; default the preset's. For {_having('micro_batch')}.",
        ),
        click.option(
            "--batch",
            type=int,
            help=f"Sequences of a step over all devices; default the preset's. For {_having('batch')}.",
        ),
        click.option(
            "--accumulate",
            type=int,
            help="Micro-batches, or parts of the batch, before each update; default the preset's.",
        ),
        click.option(
            "--precision",
            "precisions",
            multiple=True,
            help="Weigh this precision too: bf16, fp32. May be repeated.",
        ),
        click.option(
            "--keep-shapes/--tune-shapes",
            default=False,
            show_default="--tune-shapes",
            help="Do not tune model shapes or sequence length; use this for an existing checkpoint.",
        ),
        click.option(
            "--param-tolerance",
            type=float,
            help="How far shapes may move the active and the total parameters, relative; "
            f"default 0.02. For {shaped}.",
        ),
        click.option(
            "--memory-limit",
            default="",
            help="Bytes that a rank or device may hold; default its share of what the machine has.",
        ),
        click.option(
            "--ranks",
            type=int,
            help="Ranks, or devices of the mesh; default one a GPU; on a CPU one a core up to two, "
            "or 8 virtual devices.",
        ),
        click.option("--only", default="", help=f"Knobs to weigh; default all. {_knobs()}."),
        click.option(
            "--rounds",
            type=int,
            default=3,
            show_default=True,
            help="Fresh runs of each config to confirm the pick.",
        ),
        click.option(
            "--candidates",
            type=int,
            default=2,
            show_default=True,
            help="How many candidates get fresh runs.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def job_options_of(options: dict[str, Any]) -> tuple[JobOptions, dict[str, Any]]:
    """Return what the options say of the job, and the options that remain."""
    rest = dict(options)
    taken = {
        name: rest.pop(name)
        for name in ("trainer", "preset", "ranks", "device", "keep_shapes", "param_tolerance")
    }
    sizes = {name: rest.pop(name) for name in SIZES}
    limit = rest.pop("memory_limit")
    job = JobOptions(
        **taken,
        sizes={name: value for name, value in sizes.items() if value is not None},
        precisions=tuple(dtype_name(name) for name in rest.pop("precisions")),
        memory_limit=parse_size(limit) if limit else None,
        only=words(rest.pop("only")),
        rounds=rest.pop("rounds"),
        candidates=rest.pop("candidates"),
        launcher=rest["launcher"],
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
            hint='the rest is valid; mi300bench query "SELECT probe, reason FROM records" shows all',
        )


@click.command("autotune")
@job_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default="here",
    help="Folder for tuned.toml and report.html.",
)
@measuring_options
@click.pass_context
def command(ctx: click.Context, /, *, out: Path, as_json: bool, **options: Any) -> None:
    """Measure this machine, tune the trainer from it, confirm the pick, write config and report.

    Without --passes a budget under 15m measures each point in one process, with a doubt.
    """
    options["budget"] = options["budget"] or DEFAULT_BUDGET
    is_given = ctx.get_parameter_source("passes") is click.core.ParameterSource.COMMANDLINE
    passes = options["passes"] if is_given else None
    stated, shared = job_options_of(options)
    job = job_from(stated)
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
