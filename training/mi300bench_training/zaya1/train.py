"""The story of a run: world, text, model, steps, held-out loss, one record. The same alone and under torchrun."""

import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
import torch.distributed as dist
from mi300bench.device.base import AbstractDevice
from mi300bench.device.open import open_torch_device
from mi300bench.errors import PlanError
from mi300bench.schema.model import Parameter
from mi300bench.schema.record import Measurement, Outcome, World
from mi300bench.schema.record import Work as Done
from mi300bench.units import format_bytes

from mi300bench_training.stopping import stop_between_steps
from mi300bench_training.zaya1 import checkpoint, data, model, shapes, step
from mi300bench_training.zaya1.config import BUCKET_KEY, TrainConfig, to_text

METHOD = 2
HELD_OUT_SEQUENCES = 64
# Held-out sequences are drawn with a seed of their own, the same for every run.
HELD_OUT_SEED = 20_260_101
LARGEST_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """This process in the run."""

    rank: int
    ranks: int
    device: AbstractDevice


def join(kind: str, *, threads: int) -> Place:
    """Return this process's place, in the group that torchrun made or alone."""
    device = open_torch_device(kind, threads=threads)
    if "RANK" not in os.environ:
        return Place(rank=0, ranks=1, device=device)
    dist.init_process_group(device.backend)
    return Place(rank=dist.get_rank(), ranks=dist.get_world_size(), device=device)


def largest(parameters: tuple[Parameter, ...]) -> list[str]:
    """Return the largest parameters as lines: what DDP cannot split."""
    rows = sorted(parameters, key=lambda parameter: -parameter.elements)[:LARGEST_SHOWN]
    return [
        f"  {format_bytes(4 * p.elements):>10}  {'x'.join(map(str, p.shape)):>16}  {p.name}"
        for p in rows
    ]


def main(
    config: TrainConfig,
    *,
    kind: str,
    threads: int,
    sink: Callable[[Measurement], None],
    say: Callable[[str], None],
    is_tuned: bool,
    folder: Path | None = None,
    every: int = 50,
    resume: bool = False,
) -> Measurement:
    """Train for `config.steps` steps; give the sink one record and return it. Rank 0 alone talks and saves."""
    place = join(kind, threads=threads)
    talk = say if place.rank == 0 else lambda _: None
    described = shapes.describe(config)
    talk(
        f"zaya1 {config.preset}: {described.total_elements:,} parameters, {described.active_elements:,} active"
    )
    talk("largest gradients, which DDP never splits:")
    for line in largest(described.parameters):
        talk(line)

    corpus = data.load(config)
    talk(f"text: {corpus.source}, {len(corpus.train):,} tokens, {len(corpus.held_out):,} held out")
    where = place.device.torch_name
    zaya = model.build(config, device=where)
    stepper = step.stepper(config, zaya, communicate=place.ranks > 1)
    first, seconds, losses = (
        checkpoint.load(folder, stepper, ranks=place.ranks) if folder and resume else (0, [], [])
    )
    require_same_start(first, place, folder)
    if resume and not first:
        talk(f"no checkpoint in {folder}: a new run begins")
    if first:
        talk(f"resumed after {first} steps from {folder}")

    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    reason = ""
    with stop_between_steps() as stop:
        for number in range(first, config.steps):
            begin = time.perf_counter()
            loss, is_stopped = one_step(stepper, corpus, place, number, stop)
            losses.append(loss)
            seconds.append(time.perf_counter() - begin)
            talk(f"step {number + 1:>5}  loss {loss:.4f}  {seconds[-1]:.3f} s")
            if not math.isfinite(loss):
                reason = f"the loss became {loss} in step {number + 1}"
                break
            is_last = is_stopped or number + 1 == config.steps
            if folder and place.rank == 0 and ((number + 1) % every == 0 or is_last):
                checkpoint.save(
                    folder,
                    stepper,
                    step=number + 1,
                    ranks=place.ranks,
                    seconds=seconds,
                    losses=losses,
                )
            if is_stopped:
                reason = f"interrupted after {number + 1} of {config.steps} steps"
                break
    held_out = held_out_loss(stepper, corpus, place) if not reason else float("nan")
    record = the_record(
        config, place, seconds, losses, held_out, is_tuned=is_tuned, started=started, reason=reason
    )
    if place.rank == 0:
        sink(record)
    talk(reason or f"held-out loss {held_out:.4f}")
    if place.ranks > 1:
        dist.destroy_process_group()
    return record


def preflight(config: TrainConfig, *, folder: Path | None) -> None:
    """Raise what a run of `config` would raise over its text, and over the checkpoint to resume in `folder`."""
    data.load(config)
    if folder is not None:
        checkpoint.read(folder)


def require_same_start(first: int, place: Place, folder: Path | None) -> None:
    """Raise on every rank where the ranks found checkpoints of different steps."""
    if place.ranks == 1:
        return
    found = [
        torch.zeros(1, dtype=torch.int64, device=place.device.torch_name)
        for _ in range(place.ranks)
    ]
    dist.all_gather(found, torch.full_like(found[0], first))
    starts = [int(each) for each in found]
    if len(set(starts)) > 1:
        raise PlanError(
            f"the ranks found checkpoints of different steps in {folder}: {starts}",
            hint="--checkpoint must be a folder that all nodes share",
        )


def one_step(
    stepper: step.Stepper, corpus: data.Corpus, place: Place, number: int, stop: threading.Event
) -> tuple[float, bool]:
    """Run step `number`; return its loss, averaged over the ranks, and whether some rank was asked to stop."""
    batches = data.micro_batches(
        corpus,
        stepper.config,
        step=number,
        rank=place.rank,
        ranks=place.ranks,
        device=place.device.torch_name,
    )
    loss = stepper.gradients(batches)
    stepper.update(number)
    told = torch.stack([loss, torch.full_like(loss, float(stop.is_set()))])
    mean, asked = average(told, place).tolist()
    return mean, asked > 0


def average(values: torch.Tensor, place: Place) -> torch.Tensor:
    """Return the mean over the ranks."""
    if place.ranks > 1:
        dist.all_reduce(values)
        values = values / place.ranks
    return values


def held_out_loss(stepper: step.Stepper, corpus: data.Corpus, place: Place) -> float:
    """Return the mean loss on the same held-out sequences in every run, whatever its ranks and micro-batch."""
    config, where = stepper.config, place.device.torch_name
    total = torch.zeros((), device=where)
    with torch.no_grad():
        for number in range(place.rank, HELD_OUT_SEQUENCES, place.ranks):
            inputs, targets = data.batch(
                corpus.held_out,
                seed=HELD_OUT_SEED,
                step=0,
                part=number,
                parts=HELD_OUT_SEQUENCES,
                micro_batch=1,
                seq_len=config.data.seq_len,
            )
            total += stepper.model(inputs.to(where), targets.to(where))
    return float(average(total, place)) * place.ranks / HELD_OUT_SEQUENCES


def the_record(
    config: TrainConfig,
    place: Place,
    seconds: list[float],
    losses: list[float],
    held_out: float,
    *,
    is_tuned: bool,
    started: str,
    reason: str,
) -> Measurement:
    """Return the run as a record: seconds per step, losses, what was trained and how."""
    tokens = config.data.seq_len * config.data.micro_batch * config.data.accumulate * place.ranks
    return Measurement(
        probe="zaya1.train",
        method=METHOD,
        params={
            "preset": config.preset,
            "steps": config.steps,
            "seed": config.seed,
            "data.seq_len": config.data.seq_len,
            "data.micro_batch": config.data.micro_batch,
            "data.accumulate": config.data.accumulate,
            "compute.experts": config.compute.experts,
            "compute.recompute": config.compute.recompute,
            "compute.loss_chunk": config.compute.loss_chunk,
            BUCKET_KEY: to_text(config.ddp.bucket_cap_mb),
            "tuned": is_tuned,
        },
        world=World(
            device=place.device.torch_name.split(":")[0],
            ranks=place.ranks,
            threads=torch.get_num_threads(),
        ),
        outcome=Outcome.OK
        if not reason
        else Outcome.FAILED
        if reason.startswith("interrupted")
        else Outcome.WRONG_ANSWER,
        reason=reason,
        samples=tuple(seconds),
        work=Done(flop=shapes.flop_per_token(config) * tokens),
        series={"loss": tuple(losses)} | ({} if reason else {"held_out_loss": (held_out,)}),
        conditions=place.device.conditions(),
        doubts=place.device.doubts(),
        device=place.device.name,
        started_at=started,
    )
