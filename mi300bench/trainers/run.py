"""A run of a trainer: config in, record into the store. Several ranks on one machine start under torch's launcher."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.hw import xla_flags
from mi300bench.hw.inventory import take_inventory
from mi300bench.measurement.settings import Settings
from mi300bench.runner.external_launcher import is_joined, launched_ranks
from mi300bench.schema import config as tuned_config
from mi300bench.schema.record import Measurement, Origin, World, short_hash
from mi300bench.store.writer import RunWriter
from mi300bench.trainers import registry


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRequest:
    """What to train: a resolved trainer config, whether it was tuned, and where checkpoints go."""

    trainer: str
    config: Any
    is_tuned: bool
    folder: Path | None
    every: int
    resume: bool


def resolve(
    trainer: str,
    *,
    preset: str,
    tuned: Path | None,
    steps: int | None,
    data: str,
    seed: int | None,
    keys: Mapping[str, Any],
) -> tuple[Any, bool]:
    """Return the trainer's config, and whether it was tuned: a tuned file is the whole config, a preset the start of one.

    `keys` are further dotted keys to set.
    """
    is_tuned = tuned is not None
    if tuned is not None:
        document = tuned_config.read(tuned)
        config = registry.from_tables(trainer, document.config)
    else:
        config = registry.preset_config(trainer, preset)
    named = {"steps": steps, "seed": seed, "data.path": data or None}
    chosen = {key: value for key, value in named.items() if value is not None} | dict(keys)
    return registry.module(trainer, "config").override_all(config, chosen), is_tuned


def parse_keys(settings: Sequence[str]) -> dict[str, Any]:
    """Return dotted keys and values of ``key=value`` texts; values as TOML writes them, bare words as text."""
    import tomllib

    found: dict[str, Any] = {}
    for text in settings:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise PlanError(f"{text!r} sets nothing", hint="--set data.batch=8")
        try:
            found[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = value
        if isinstance(found[key], list):
            found[key] = tuple(found[key])
    return found


def prepare_jax(trainer: str, config: Any, kind: str, settings: Settings) -> Settings:
    """Tell JAX, before it starts, what the config says; return the settings, which say where a CPU's virtual devices are emulated.

    What the environment sets already stays.
    """
    if trainer not in registry.SINGLE_PROCESS:
        return settings
    if kind != "cpu":
        if config.launch.memory_fraction:
            os.environ.setdefault("XLA_CLIENT_MEM_FRACTION", f"{config.launch.memory_fraction:g}")
        if config.launch.combine_bytes and "combine_threshold" not in os.environ.get(
            "XLA_FLAGS", ""
        ):
            joined = " ".join(xla_flags.combining(config.launch.combine_bytes))
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {joined}".strip()
        return settings
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    count, given = (
        config.mesh.devices,
        re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", "")),
    )
    if given is None:
        if count > 1:
            os.environ["XLA_FLAGS"] = (
                f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}".strip()
            )
        virtual = count
    else:  # of each process, where a launcher started several
        virtual = int(given.group(1))
    if virtual == 1:
        return settings
    return replace(settings, origin=Origin.EMULATED, source=f"{virtual} virtual devices on one CPU")


def relaunch(request: TrainRequest, arguments: Sequence[str], world: World, *, node: str) -> int:
    """Run the same command once a rank under torch's elastic launcher; return its exit status.

    Text and checkpoint are looked at here first, where a mistake is one message and not one a rank. Ctrl-C reaches the
    launcher too, which lets the ranks finish their step and save; it is waited for.
    """
    registry.module(request.trainer, "train").preflight(
        request.config, folder=request.folder if request.resume else None
    )
    threads = {"OMP_NUM_THREADS": str(world.threads)} if world.threads else {}
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={world.ranks}",
    ]
    told = {**os.environ, **threads, "MI300BENCH_NODE": node}
    launcher = subprocess.Popen(
        [*command, "-m", "mi300bench.cli", *without_node(arguments)], env=told
    )
    try:
        return launcher.wait()
    except KeyboardInterrupt:
        launcher.wait()
        raise


def without_node(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without ``--node NAME``, which torchrun's parser would take for its own --node-rank."""
    kept: list[str] = []
    is_name = False
    for argument in arguments:
        if not is_name and argument != "--node" and not argument.startswith("--node="):
            kept.append(argument)
        is_name = argument == "--node"
    return kept


# Where launchers tell a process which one it is: torchrun, jax.distributed by hand, Slurm, Open MPI.
NUMBERS = ("RANK", "JAX_PROCESS_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


def is_first_process() -> bool:
    """Return whether this process is the one that writes: the first of a launcher's, or the only one."""
    return next((os.environ[name] for name in NUMBERS if name in os.environ), "0") == "0"


def needs_launcher(trainer: str, world: World) -> bool:
    """Return whether ranks have to be started first."""
    return trainer not in registry.SINGLE_PROCESS and world.ranks > 1 and not is_joined()


def train(request: TrainRequest, settings: Settings, world: World) -> Measurement:
    """Train in this process (one rank of a group, or alone) and store the record; rank 0 writes it."""
    if (
        request.trainer not in registry.SINGLE_PROCESS
        and is_joined()
        and launched_ranks() != world.ranks
    ):
        raise PlanError(
            f"--ranks {world.ranks} was asked for, the launcher made {launched_ranks()} ranks",
            hint="leave --ranks out",
        )
    main = registry.module(request.trainer, "train").main
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
    header = {"question": f"a run of {request.trainer}", "plan": "", "passes": 1, "points": 1}
    kept: list[Measurement] = []
    # Opened before the first step: a store that cannot be written is not found out after hours of training.
    with RunWriter(settings.store, node=settings.node, header=header) as writer:

        def keep(record: Measurement) -> None:
            params = dict(record.params) | {
                "config": short_hash(registry.tables(request.trainer, request.config))
            }
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
