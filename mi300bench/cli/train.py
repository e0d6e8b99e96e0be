"""mi300bench train."""

import json
import socket
import sys
from pathlib import Path

import click

from mi300bench.cli.options import device_of, json_option, node_option, say, store_option
from mi300bench.errors import PlanError, ProbeError
from mi300bench.measurement.settings import Settings
from mi300bench.schema.codec import encode
from mi300bench.schema.record import Outcome
from mi300bench.schema.trainer import TrainerSpec
from mi300bench.trainers import run
from mi300bench.trainers.launching import launcher_of, run_settings
from mi300bench.trainers.registry import spec_of


@click.command("train")
@click.argument("trainer")
@click.option(
    "--preset", default="tiny", show_default=True, help="Which model; excludes --config."
)
@click.option(
    "--config",
    "tuned",
    type=click.Path(path_type=Path),
    help="A tuned config, which is the whole config.",
)
@click.option("--steps", type=int, help="Steps to train.")
@click.option("--seed", type=int, help="Seed of weights and batches.")
@click.option(
    "--data", default="", help="Text file or folder; default CPython's documentation and library."
)
@click.option("--ranks", type=int, help="Local ranks; default one a GPU, or one a core up to two.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "rocm"]),
    default="auto",
    show_default=True,
    help="Where to train; auto is the accelerator found, else the CPU.",
)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the checkpoints.",
)
@click.option(
    "--every", type=int, default=50, show_default=True, help="Steps between checkpoints."
)
@click.option("--resume", is_flag=True, help="Continue from the newest checkpoint.")
@click.option(
    "--set",
    "keys",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set any key of the config, such as data.micro_batch=8.",
)
@click.option("--describe", is_flag=True, help="Print the model as numbers and allocate nothing.")
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
    """Train a reference model: real text, held-out loss, its record in the store. The same under torchrun."""
    preset_source = ctx.get_parameter_source("preset")
    if tuned is not None and preset_source is click.core.ParameterSource.COMMANDLINE:
        raise PlanError(
            "--preset and --config exclude each other", hint="a tuned config is the whole config"
        )
    if resume and checkpoint is None:
        raise PlanError("--resume has no checkpoint to continue from", hint="--checkpoint FOLDER")
    if ranks is not None and ranks < 1:
        raise PlanError(f"--ranks must be at least 1 (got {ranks})", hint="leave it out")
    if every < 1:
        raise PlanError(f"--every must be at least 1 (got {every})", hint="--every 50")
    spec = spec_of(trainer)
    config, is_tuned = run.resolve(
        spec,
        preset=preset,
        tuned=tuned,
        steps=steps,
        data=data,
        seed=seed,
        keys=run.parse_keys(keys),
    )
    if describe:
        _describe(spec, config, as_json=as_json)
        return
    kind, launcher, groups = device_of(device), launcher_of(spec), run_settings(spec, config)
    world = launcher.world(kind, ranks, groups)
    settings = Settings(store=store, say=say, node=node or socket.gethostname())
    settings = launcher.prepare(groups, kind, settings)
    request = run.TrainRequest(
        spec=spec,
        config=config,
        is_tuned=is_tuned,
        folder=checkpoint,
        every=every,
        resume=resume,
    )
    if launcher.needs_ranks(world):
        ctx.exit(run.relaunch(request, sys.argv[1:], world, node=settings.node))
    record = run.train(request, settings, world)
    if as_json and record.run:
        click.echo(json.dumps(encode(record)))
    if record.outcome is not Outcome.OK:
        raise ProbeError(
            record.reason,
            hint="what was done is in the store; with --checkpoint, --resume continues",
        )


def _describe(spec: TrainerSpec, config: object, *, as_json: bool) -> None:
    counts = spec.counts(config)
    if as_json:
        click.echo(json.dumps({"params": counts}))
        return
    for name, count in counts.items():
        click.echo(f"{name:>18}  {count:,}")
    for gemm in spec.describe(config).gemms:
        click.echo(f"{gemm.name:>18}  {gemm.count} x {gemm.m}x{gemm.n}x{gemm.k}")
