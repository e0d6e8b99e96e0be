"""A run of a trainer: config in, record into the store. Several ranks on one machine start under torch's launcher."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mi300bench.flow import trainers
from mi300bench.flow.settings import Settings
from mi300bench.hw.inventory import take_inventory
from mi300bench.runner.joined import is_joined
from mi300bench.schema import config as tuned_config
from mi300bench.schema.record import Measurement, World, short_hash
from mi300bench.store.writer import RunWriter


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
    trainer: str, *, preset: str, tuned: Path | None, steps: int | None, data: str, seed: int | None
) -> tuple[Any, bool]:
    """Return the trainer's config, and whether it was tuned: a tuned file is the whole config, a preset the start of one."""
    is_tuned = tuned is not None
    if tuned is not None:
        document = tuned_config.read(tuned)
        config = trainers.from_tables(trainer, document.config)
    else:
        config = trainers.preset_config(trainer, preset)
    override = trainers.module(trainer, "config").override
    for key, value in (("steps", steps), ("seed", seed), ("data.path", data or None)):
        if value is not None:
            config = override(config, key, value)
    return config, is_tuned


def relaunch(arguments: Sequence[str], world: World) -> int:
    """Run the same command once a rank under torch's elastic launcher; return its exit status."""
    threads = {"OMP_NUM_THREADS": str(world.threads)} if world.threads else {}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world.ranks}"]
    return subprocess.run(
        [*command, "-m", "mi300bench.cli", *arguments], env={**os.environ, **threads}, check=False
    ).returncode


def needs_launcher(world: World) -> bool:
    """Return whether ranks have to be started first."""
    return world.ranks > 1 and not is_joined()


def train(request: TrainRequest, settings: Settings, world: World) -> Measurement:
    """Train in this process (one rank of a group, or alone) and store the record; rank 0 writes it."""
    main = trainers.module(request.trainer, "train").main
    kept: list[Measurement] = []

    def keep(record: Measurement) -> None:
        node = take_inventory(node=settings.node)
        header = {"question": f"a run of {request.trainer}", "plan": "", "passes": 1, "points": 1}
        with RunWriter(settings.store, node=settings.node, header=header) as writer:
            complete = replace(
                record,
                id=short_hash([writer.run_id, record.probe, record.started_at]),
                point=short_hash([record.probe, record.method, dict(record.params)]),
                run=writer.run_id,
                node=settings.node,
                origin=settings.origin,
                source=settings.source,
                doubts=(*record.doubts, *node.doubts),
            )
            writer.write(complete)
            writer.finish()
            kept.append(complete)

    record: Measurement = main(
        request.config,
        kind=world.device,
        threads=world.threads,
        sink=keep,
        say=settings.say,
        is_tuned=request.is_tuned,
        folder=request.folder,
        every=request.every,
        resume=request.resume,
    )
    return kept[0] if kept else record
