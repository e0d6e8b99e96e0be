"""mi300bench train."""

import json
import socket
import sys
from pathlib import Path
from typing import Any

import click

from mi300bench.cli.options import device_of, json_option, node_option, say, store_option
from mi300bench.errors import PlanError, ProbeError
from mi300bench.measurement.local_topology import default_ranks, world
from mi300bench.measurement.settings import Settings
from mi300bench.runner.external_launcher import is_joined
from mi300bench.schema.codec import encode
from mi300bench.schema.record import Outcome, World
from mi300bench.trainers import registry, run


@click.command("train")
@click.argument("trainer")
@click.option("--preset", default="tiny", show_default=True, help="Which model; excludes --config.")
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
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda", "rocm"]), default="auto", show_default=True,
              help="Where to train; auto is the accelerator found, else the CPU.")  # fmt: skip
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the checkpoint.",
)
@click.option("--every", type=int, default=50, show_default=True, help="Steps between checkpoints.")
@click.option("--resume", is_flag=True, help="Continue from the checkpoint.")
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
    ctx: click.Context, /, *, trainer: str, preset: str, tuned: Path | None, steps: int | None, seed: int | None, data: str,
    ranks: int | None, device: str, checkpoint: Path | None, every: int, resume: bool, keys: tuple[str, ...], describe: bool,
    node: str, store: Path, as_json: bool,
) -> None:  # fmt: skip
    """Train a reference model: real text, held-out loss, its record in the store. The same under torchrun."""
    if (
        tuned is not None
        and ctx.get_parameter_source("preset") is click.core.ParameterSource.COMMANDLINE
    ):
        raise PlanError(
            "--preset and --config exclude each other", hint="a tuned config is the whole config"
        )
    if resume and checkpoint is None:
        raise PlanError("--resume has no checkpoint to continue from", hint="--checkpoint FOLDER")
    if ranks is not None and ranks < 1:
        raise PlanError(f"--ranks {ranks} train nothing", hint="--ranks 2, or leave it out")
    if every < 1:
        raise PlanError(f"--every {every} never saves", hint="--every 50")
    config, is_tuned = run.resolve(
        trainer,
        preset=preset,
        tuned=tuned,
        steps=steps,
        data=data,
        seed=seed,
        keys=run.parse_keys(keys),
    )
    if describe:
        _describe(trainer, config, as_json=as_json)
        return
    kind = device_of(device)
    place = _place(kind, ranks, config)
    settings = Settings(store=store, say=say, node=node or socket.gethostname())
    settings = run.prepare_jax(trainer, config, kind, settings)
    request = run.TrainRequest(
        trainer=trainer,
        config=config,
        is_tuned=is_tuned,
        folder=checkpoint,
        every=every,
        resume=resume,
    )
    if run.needs_launcher(trainer, place):
        ctx.exit(run.relaunch(request, sys.argv[1:], place, node=settings.node))
    record = run.train(request, settings, place)
    if as_json and record.run:
        click.echo(json.dumps(encode(record)))
    if record.outcome is not Outcome.OK:
        raise ProbeError(
            record.reason,
            hint="what was done is in the store; with --checkpoint, --resume continues",
        )


def _place(kind: str, ranks: int | None, config: Any) -> World:
    """Return the world to train in: as many ranks as asked for, else as a launcher made, else as the config says."""
    if hasattr(config, "mesh"):
        if ranks is not None:
            raise PlanError(
                f"--ranks {ranks}: one process trains on all devices of a mesh",
                hint="--set mesh.fsdp=8",
            )
        return world(kind, 1)
    if ranks is None and not is_joined() and config.launch.ranks:
        return world(kind, config.launch.ranks, threads=config.launch.threads)
    return world(kind, ranks if ranks is not None else default_ranks(kind))


def _describe(trainer: str, config: object, *, as_json: bool) -> None:
    described = registry.describe(trainer, config)
    if hasattr(config, "lora"):  # what is trained is small beside what is frozen
        counts = {"trained": described.total_elements, "frozen": described.active_elements}
    else:
        counts = {
            "total": described.total_elements,
            "without_embedding": described.total_elements - described.embedding_elements,
            "active": described.active_elements,
        }
    if as_json:
        click.echo(json.dumps({"params": counts}))
        return
    for name, count in counts.items():
        click.echo(f"{name:>18}  {count:,}")
    for gemm in described.gemms:
        click.echo(f"{gemm.name:>18}  {gemm.count} x {gemm.m}x{gemm.n}x{gemm.k}")
