"""mi300bench autotune."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mi300bench.api.autotuning import autotune_into
from mi300bench.api.jobs import JobOptions, job_from, require_no_failures
from mi300bench.cli.options import measuring_options, settings_of, words
from mi300bench.cli.trainer import explain
from mi300bench.schema import config as tuned_config
from mi300bench.schema.config import TunedConfig
from mi300bench.trainers.registry import names, spec_of
from mi300bench.units import dtype_name, parse_duration, parse_size

Function = TypeVar("Function", bound=Callable[..., Any])
DEFAULT_BUDGET = "5m"
SIZES = ("seq_len", "micro_batch", "batch", "accumulate")


def _having(option: str) -> str:
    """Return the trainers that have an option for the batch."""
    return ", ".join(name for name in names() if option in spec_of(name).options)


def _knobs() -> str:
    return "; ".join(f"{name}: {', '.join(spec_of(name).knob_names)}" for name in names())


def _presets() -> str:
    return ", ".join(f"{spec_of(name).default_presets['cpu']} for {name}" for name in names())


def job_options(function: Function) -> Function:
    """Add the options of a tuning job."""
    shaped = ", ".join(name for name in names() if spec_of(name).has_model_shapes)
    options = [
        click.argument("trainer"),
        click.option("--preset", default="", help=f"Which model. Default: {_presets()}."),
        click.option("--seq-len", type=int, help="Tokens per sequence. Default: the preset's."),
        click.option(
            "--micro-batch",
            type=int,
            help="Sequences that a rank computes at once. Default: the preset's. "
            f"Only for {_having('micro_batch')}.",
        ),
        click.option(
            "--batch",
            type=int,
            help="Sequences per step on all devices together. Default: the preset's. "
            f"Only for {_having('batch')}.",
        ),
        click.option(
            "--accumulate",
            type=int,
            help="Micro-batches before each update. Default: the preset's.",
        ),
        click.option(
            "--precision",
            "precisions",
            multiple=True,
            help="Also weigh this precision: bf16 or fp32. May be repeated.",
        ),
        click.option(
            "--keep-shapes/--tune-shapes",
            default=False,
            show_default="--tune-shapes",
            help="Do not tune model shapes or sequence length. Use --keep-shapes for an existing "
            "checkpoint.",
        ),
        click.option(
            "--param-tolerance",
            type=float,
            help="How far tuned shapes may change the number of active and of total parameters, "
            f"as a fraction. Default: 0.02. Only for {shaped}.",
        ),
        click.option(
            "--memory-limit",
            default="",
            help="Memory that a rank or device may use, such as 16GiB. Default: its share of the "
            "machine's memory.",
        ),
        click.option(
            "--ranks",
            type=int,
            help="Number of ranks, or of devices of the mesh. Default: one per GPU; on a CPU one "
            "rank per core up to two, or 8 virtual devices.",
        ),
        click.option("--only", default="", help=f"Knobs to weigh. Default: all. {_knobs()}."),
        click.option(
            "--rounds",
            type=int,
            default=3,
            show_default=True,
            help="Number of fresh runs of each config that is confirmed.",
        ),
        click.option(
            "--candidates",
            type=int,
            default=2,
            show_default=True,
            help="Number of candidates that get fresh runs.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def job_options_of(options: dict[str, Any]) -> tuple[JobOptions, dict[str, Any]]:
    """Return the options of the job, and the other options."""
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
    """Print the config and the path of its file."""
    if as_json:
        click.echo(json.dumps(tuned_config.to_document(tuned)))
        return
    explain.head(tuned)
    for name, choice in tuned.choices.items():
        click.echo(f"{name} = {choice.value}   (default: {choice.default})\n  {choice.why}")
    click.echo(f"tuned config: {out}   (to see the reasons: mi300bench explain {out})")


@click.command("autotune")
@job_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default="this folder",
    help="Folder for tuned.toml and report.html.",
)
@measuring_options
@click.pass_context
def command(ctx: click.Context, /, *, out: Path, as_json: bool, **options: Any) -> None:
    """Measure this machine, tune a trainer, confirm the result, and write config and report.

    The default --budget is 5m. Without --passes, a budget below 15m measures each point in one
    process; its records then have a doubt.
    """
    options["budget"] = options["budget"] or DEFAULT_BUDGET
    is_given = ctx.get_parameter_source("passes") is click.core.ParameterSource.COMMANDLINE
    passes = options["passes"] if is_given else None
    stated, shared = job_options_of(options)
    job = job_from(stated)
    with settings_of(**shared) as settings:
        files = autotune_into(
            out, job, settings, budget_s=parse_duration(options["budget"]), passes=passes
        )
    print_tuned(files.tuned.config, files.config, as_json=as_json)
    click.echo(f"report: {files.report}", err=as_json)
    require_no_failures(files.tuned)
