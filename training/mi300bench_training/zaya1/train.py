"""The story of a run: world, text, model, steps, held-out loss, one record. The same alone and under torchrun."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
import torch.distributed as dist
from mi300bench.device.face import AbstractDevice
from mi300bench.device.open import open_torch_device
from mi300bench.schema.model import Parameter
from mi300bench.schema.record import Measurement, Outcome, World
from mi300bench.schema.record import Work as Done
from mi300bench.units import format_bytes

from mi300bench_training.zaya1 import checkpoint, data, model, shapes, step
from mi300bench_training.zaya1.config import TrainConfig

METHOD = 1
HELD_OUT_BATCHES = 8
# Held-out batches are drawn with a seed of their own, the same for every run.
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
    return [f"  {format_bytes(4 * p.elements):>10}  {'x'.join(map(str, p.shape)):>16}  {p.name}" for p in rows]


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
    talk(f"zaya1 {config.preset}: {described.total_elements:,} parameters, {described.active_elements:,} active")
    talk("largest gradients, which DDP never splits:")
    for line in largest(described.parameters):
        talk(line)

    corpus = data.load(config)
    talk(f"text: {corpus.source}, {len(corpus.train):,} tokens, {len(corpus.held_out):,} held out")
    where = place.device.torch_name
    zaya = model.build(config.model, seed=config.seed, device=where, precision=config.precision)
    stepper = step.stepper(config, zaya, communicate=place.ranks > 1)
    first, seconds, losses = checkpoint.load(folder, stepper) if folder and resume else (0, [], [])
    if first:
        talk(f"resumed after {first} steps from {folder}")

    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    reason = ""
    try:
        for number in range(first, config.steps):
            begin = time.perf_counter()
            losses.append(one_step(stepper, corpus, place, number))
            seconds.append(time.perf_counter() - begin)
            talk(f"step {number + 1:>5}  loss {losses[-1]:.4f}  {seconds[-1]:.3f} s")
            if folder and place.rank == 0 and ((number + 1) % every == 0 or number + 1 == config.steps):
                checkpoint.save(folder, stepper, step=number + 1, seconds=seconds, losses=losses)
    except KeyboardInterrupt:
        reason = f"interrupted after {len(losses)} of {config.steps} steps"
        if folder and place.rank == 0 and len(losses) == len(seconds):
            checkpoint.save(folder, stepper, step=len(losses), seconds=seconds, losses=losses)
    held_out = held_out_loss(stepper, corpus, place) if not reason else float("nan")
    record = the_record(config, place, seconds, losses, held_out, is_tuned=is_tuned, started=started, reason=reason)
    if place.rank == 0:
        sink(record)
    talk(reason or f"held-out loss {held_out:.4f}")
    if place.ranks > 1 and not reason:
        dist.destroy_process_group()
    return record


def one_step(stepper: step.Stepper, corpus: data.Corpus, place: Place, number: int) -> float:
    """Run step `number` and return its loss, averaged over the ranks."""
    config, where = stepper.config, place.device.torch_name
    inputs, targets = data.batch(
        corpus.train,
        seed=config.seed,
        step=number,
        rank=place.rank,
        ranks=place.ranks,
        micro_batch=config.data.micro_batch,
        seq_len=config.data.seq_len,
    )
    loss = stepper.forward(inputs.to(where), targets.to(where))
    loss.backward()
    stepper.update(number)
    return average(loss.detach(), place)


def average(loss: torch.Tensor, place: Place) -> float:
    """Return the mean over the ranks."""
    if place.ranks > 1:
        dist.all_reduce(loss)
        loss = loss / place.ranks
    return float(loss)


def held_out_loss(stepper: step.Stepper, corpus: data.Corpus, place: Place) -> float:
    """Return the mean loss on the same held-out batches in every run."""
    config, where = stepper.config, place.device.torch_name
    total = torch.zeros((), device=where)
    with torch.no_grad():
        for number in range(HELD_OUT_BATCHES):
            inputs, targets = data.batch(
                corpus.held_out,
                seed=HELD_OUT_SEED,
                step=number,
                rank=place.rank,
                ranks=place.ranks,
                micro_batch=config.data.micro_batch,
                seq_len=config.data.seq_len,
            )
            total += step.loss_of(stepper.model, inputs.to(where), targets.to(where))
    return average(total / HELD_OUT_BATCHES, place)


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
    caps = config.ddp.bucket_cap_mb
    return Measurement(
        probe="zaya1.train",
        method=METHOD,
        params={
            "preset": config.preset,
            "steps": config.steps,
            "seed": config.seed,
            "seq_len": config.data.seq_len,
            "micro_batch": config.data.micro_batch,
            "bucket_cap_mb": caps
            if isinstance(caps, str)
            else ",".join(map(str, caps if isinstance(caps, list) else [caps])),
            "tuned": is_tuned,
        },
        world=World(device=place.device.torch_name.split(":")[0], ranks=place.ranks, threads=torch.get_num_threads()),
        outcome=Outcome.FAILED if reason else Outcome.OK,
        reason=reason,
        samples=tuple(seconds),
        work=Done(flop=shapes.flop_per_token(config) * config.data.seq_len * config.data.micro_batch * place.ranks),
        series={"loss": tuple(losses)} | ({} if reason else {"held_out_loss": (held_out,)}),
        conditions=place.device.conditions(),
        doubts=place.device.doubts(),
        device=place.device.name,
        started_at=started,
    )
