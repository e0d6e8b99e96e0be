"""mi300bench train."""

import json
import sys
from pathlib import Path

import click

from mi300bench.api.training import (
    DEFAULT_PRESET,
    TrainOptions,
    model_size,
    prepare_training,
    require_trained,
    start_ranks,
    train,
)
from mi300bench.cli.options import (
    device_option,
    json_option,
    node_option,
    store_option,
    store_settings,
)
from mi300bench.schema.codec import encode
from mi300bench.trainers.run import parse_keys


@click.command("train")
@click.argument("trainer")
@click.option(
    "--preset",
    default=DEFAULT_PRESET,
    show_default=True,
    help="Which model. Cannot be given with --config.",
)
@click.option(
    "--config",
    "tuned",
    type=click.Path(path_type=Path),
    help="A tuned config, which replaces the preset.",
)
@click.option("--steps", type=int, help="Number of steps. Default: the config's.")
@click.option("--seed", type=int, help="Seed of weights and batches. Default: the config's.")
@click.option(
    "--data",
    default="",
    help="Text file or folder to train on. Default: CPython's documentation and library.",
)
@click.option(
    "--ranks",
    type=int,
    help="Number of local ranks. Default: one per GPU, on a CPU one per core up to two.",
)
@device_option("Device to train on. auto is a GPU if its driver is loaded, else the CPU.")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for checkpoints. Default: none are written.",
)
@click.option("--every", type=int, default=50, show_default=True, help="Steps between checkpoints.")
@click.option("--resume", is_flag=True, help="Continue from the newest checkpoint.")
@click.option(
    "--set",
    "keys",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of the config, such as data.micro_batch=8. May be repeated.",
)
@click.option(
    "--describe",
    is_flag=True,
    help="Print the model's parameters and matrix products, and do not train.",
)
@node_option
@store_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    trainer: str,
    preset: str,
    tuned: Path | None,
    steps: int | None,
    seed: int | None,
    data: str,
    ranks: int | None,
    device: str,
    checkpoint: Path | None,
    every: int,
    resume: bool,
    keys: tuple[str, ...],
    describe: bool,
    node: str,
    store: Path,
    as_json: bool,
) -> None:
    """Train a reference model on real text, and store a record with its time and held-out loss.

    On several nodes start it under torchrun.
    """
    is_given = ctx.get_parameter_source("preset") is click.core.ParameterSource.COMMANDLINE
    options = TrainOptions(
        trainer=trainer,
        preset=preset if is_given else "",
        tuned=tuned,
        steps=steps,
        seed=seed,
        data=data,
        keys=parse_keys(keys),
        device=device,
        ranks=ranks,
        checkpoint=checkpoint,
        every=every,
        resume=resume,
    )
    if describe:
        _describe(options, as_json=as_json)
        return
    training = prepare_training(options, store_settings(store, node))
    if training.needs_ranks:
        ctx.exit(start_ranks(training, sys.argv[1:]))
    record = train(training)
    if as_json and record.run:
        click.echo(json.dumps(encode(record)))
    require_trained(record)


def _describe(options: TrainOptions, *, as_json: bool) -> None:
    size = model_size(options)
    if as_json:
        click.echo(json.dumps({"params": size.parameters}))
        return
    for name, count in size.parameters.items():
        click.echo(f"{name:>18}  {count:,}")
    for gemm in size.products:
        click.echo(f"{gemm.name:>18}  {gemm.count} x {gemm.m}x{gemm.n}x{gemm.k}")
