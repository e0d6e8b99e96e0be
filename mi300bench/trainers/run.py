"""A training run: config in, record in the store. Several ranks are started with torchrun."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.hw.inventory import take_inventory
from mi300bench.measurement.settings import Settings
from mi300bench.schema import config as tuned_config
from mi300bench.schema.record import Measurement, World, short_hash
from mi300bench.schema.trainer import TrainerSpec
from mi300bench.store.writer import RunWriter
from mi300bench.trainers.launching import launcher_of
from mi300bench.trainers.registry import function_of

# The variable with the number of a process, as set by torchrun, by hand for JAX, by Slurm and by
# Open MPI.
PROCESS_NUMBERS = ("RANK", "JAX_PROCESS_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRequest:
    """A resolved config to train with.

    `folder` is that of the checkpoints, which are written `every` so many steps; `resume` continues
    from the newest one there.
    """

    spec: TrainerSpec
    config: Any
    is_tuned: bool
    folder: Path | None
    every: int
    resume: bool


def resolve(
    spec: TrainerSpec,
    *,
    preset: str,
    tuned: Path | None,
    steps: int | None,
    data: str,
    seed: int | None,
    keys: Mapping[str, Any],
) -> tuple[Any, bool]:
    """Return the config of a preset or of a `tuned` file, and whether it was tuned.

    `keys` are further dotted keys to set.
    """
    config = (
        spec.from_tables(tuned_config.read(tuned).config)
        if tuned is not None
        else spec.preset(preset)
    )
    named = {"steps": steps, "seed": seed, "data.path": data or None}
    chosen = {key: value for key, value in named.items() if value is not None} | dict(keys)
    return spec.override(config, chosen), tuned is not None


def parse_keys(assignments: Sequence[str]) -> dict[str, Any]:
    """Return the dotted keys of ``key=value`` texts. A value is TOML, or else plain text."""
    keys: dict[str, Any] = {}
    for text in assignments:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise PlanError(
                f"--set needs KEY=VALUE (got {text!r})", hint="for example --set data.batch=8"
            )
        try:
            keys[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            keys[key] = value
        if isinstance(keys[key], list):
            keys[key] = tuple(keys[key])
    return keys


def relaunch(request: TrainRequest, arguments: Sequence[str], world: World, *, node: str) -> int:
    """Start torchrun with these `arguments` of mi300bench on each rank; return its exit status.

    Text and checkpoint are checked first, so that an error is one message and not one per rank.
    Ctrl-C reaches torchrun too: we wait until the ranks have finished their step and saved.
    """
    preflight = function_of(request.spec, "train", "preflight")
    preflight(request.config, folder=request.folder if request.resume else None)
    threads = {"OMP_NUM_THREADS": str(world.threads)} if world.threads else {}
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={world.ranks}",
        "-m",
        "mi300bench.cli",
        *without_node(arguments),
    ]
    launcher = subprocess.Popen(command, env={**os.environ, **threads, "MI300BENCH_NODE": node})
    try:
        return launcher.wait()
    except KeyboardInterrupt:
        launcher.wait()
        raise


def without_node(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without ``--node NAME``, which torchrun reads as --node-rank."""
    kept: list[str] = []
    is_name = False
    for argument in arguments:
        if not is_name and argument != "--node" and not argument.startswith("--node="):
            kept.append(argument)
        is_name = argument == "--node"
    return kept


def is_first_process() -> bool:
    """Return whether this process writes the record: it is the first, or the only one."""
    numbers = (os.environ[name] for name in PROCESS_NUMBERS if name in os.environ)
    return next(numbers, "0") == "0"


def train(request: TrainRequest, settings: Settings, world: World) -> Measurement:
    """Train in this process, alone or as one rank. The first process stores the record."""
    spec = request.spec
    launcher_of(spec).require(world)
    main = function_of(spec, "train", "main")
    parts = {
        "kind": world.device,
        "threads": world.threads,
        "say": settings.say,
        "is_tuned": request.is_tuned,
        "folder": request.folder,
        "every": request.every,
        "resume": request.resume,
    }
    if not is_first_process():
        record: Measurement = main(request.config, sink=lambda _: None, **parts)
        return record
    node = take_inventory(node=settings.node)
    question = f"How does {spec.name} train?"
    header = {"question": question, "plan": "", "passes": 1, "points": 1}
    kept: list[Measurement] = []
    # Opened before the first step: an error of the store must not come after hours of training.
    with RunWriter(settings.store, node=settings.node, header=header) as writer:

        def keep(record: Measurement) -> None:
            params = dict(record.params) | {"config": short_hash(spec.to_tables(request.config))}
            complete = replace(
                record,
                params=params,
                id=short_hash([writer.run_id, record.probe, record.started_at]),
                point=short_hash([record.probe, record.method, params]),
                run=writer.run_id,
                node=settings.node,
                origin=settings.origin,
                source=settings.source,
                doubts=(*record.doubts, *node.doubts),
            )
            kept.append(complete)
            writer.write(complete)
            writer.finish()

        main(request.config, sink=keep, **parts)
    return kept[0]
