"""A run from start to end: ranks, text, model, steps, held-out loss, one record.

It is the same for one process and under torchrun.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch
from mi300bench.schema.probe import RankContext
from mi300bench.schema.record import Measurement, World
from mi300bench.units import format_bytes

from mi300bench_training import torch_ranks
from mi300bench_training.checkpoint import resume_line
from mi300bench_training.ending import Ending, ending_after, is_save_due
from mi300bench_training.history import RunHistory, RunResult
from mi300bench_training.stopping import stop_between_steps
from mi300bench_training.zaya1 import checkpoint, data, model, shapes, step
from mi300bench_training.zaya1.config import BUCKET_KEY, ZayaConfig, to_text
from mi300bench_training.zaya1.data import TokenStreams
from mi300bench_training.zaya1.step import Stepper

METHOD = 2
HELD_OUT_SEQUENCES = 64
# The seed that draws the held-out sequences; it is the same for every run.
HELD_OUT_SEED = 20_260_101
LARGEST_SHOWN = 5


def main(
    config: ZayaConfig,
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
    """Train for `config.steps` steps; pass one record to `sink` and return it.

    Only rank 0 prints and saves.
    """
    context = torch_ranks.join(kind, threads=threads)
    is_first = context.rank == 0
    talk = say if is_first else lambda _: None
    for line in model_lines(config):
        talk(line)
    streams = data.load(config)
    talk(
        f"text: {streams.source}, {len(streams.train):,} tokens, {len(streams.held_out):,} held out"
    )
    built = model.build(config, device=context.device.torch_name)
    stepper = step.stepper(config, built, communicate=context.ranks > 1)
    history, text = RunHistory(), streams.digest if folder else ""
    if folder and resume:
        history = checkpoint.load(folder, stepper, ranks=context.ranks, text=text)
        torch_ranks.require_same_start(history.steps, context, folder)
        talk(resume_line(folder, history.steps))

    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    tokens = tokens_of_a_step(config, ranks=context.ranks)
    ending = Ending.FINISHED if history.steps == config.steps else None
    with stop_between_steps() as stop:
        while ending is None:
            begin = time.perf_counter()
            loss, is_stopped = one_step(stepper, streams, context, history.steps, stop)
            history.add(loss, time.perf_counter() - begin)
            talk(history.progress_line(tokens=tokens))
            ending = ending_after(
                step=history.steps, steps=config.steps, loss=loss, is_interrupted=is_stopped
            )
            if folder and is_first and is_save_due(step=history.steps, every=every, ending=ending):
                checkpoint.save(folder, stepper, history, ranks=context.ranks, text=text)
    is_finished = ending is Ending.FINISHED
    result = RunResult(
        history=history,
        ending=ending,
        steps=config.steps,
        held_out_loss=held_out_loss(stepper, streams, context) if is_finished else None,
        started_at=started_at,
    )
    record = record_of(result, config, context, is_tuned=is_tuned)
    if is_first:
        sink(record)
    talk(result.summary)
    torch_ranks.leave(context)
    return record


def preflight(config: ZayaConfig, *, folder: Path | None) -> None:
    """Raise the errors of a run's text and of its checkpoint in `folder`, before it starts."""
    data.load(config)
    if folder is not None:
        checkpoint.check(folder)


def model_lines(config: ZayaConfig) -> list[str]:
    """Return lines about the size of the model and its largest gradients."""
    described = shapes.describe(config)
    rows = sorted(described.parameters, key=lambda p: -p.elements)[:LARGEST_SHOWN]
    return [
        f"zaya1 {config.preset}: {described.total_elements:,} parameters, "
        f"{described.active_elements:,} active",
        "largest gradients (DDP never splits one):",
        *(
            f"  {format_bytes(4 * p.elements):>10}  {'x'.join(map(str, p.shape)):>16}  {p.name}"
            for p in rows
        ),
    ]


def tokens_of_a_step(config: ZayaConfig, *, ranks: int) -> int:
    """Return the tokens of a step over all ranks."""
    return config.data.seq_len * config.data.micro_batch * config.data.accumulate * ranks


def one_step(
    stepper: Stepper,
    streams: TokenStreams,
    context: RankContext,
    number: int,
    stop: threading.Event,
) -> tuple[float, bool]:
    """Run step `number`; return its mean loss over the ranks, and whether any rank has to stop."""
    batches = data.micro_batches(
        streams,
        stepper.config,
        step=number,
        rank=context.rank,
        ranks=context.ranks,
        device=context.device.torch_name,
    )
    loss = stepper.gradients(batches)
    stepper.update(number)
    both = torch.stack([loss, torch.full_like(loss, float(stop.is_set()))])
    mean, stopped = torch_ranks.mean_over_ranks(both, context).tolist()
    return mean, stopped > 0


def held_out_loss(stepper: Stepper, streams: TokenStreams, context: RankContext) -> float:
    """Return the mean loss on held-out sequences; it does not depend on ranks or micro-batch."""
    config, where = stepper.config, context.device.torch_name
    total = torch.zeros((), device=where)
    with torch.no_grad():
        for number in range(context.rank, HELD_OUT_SEQUENCES, context.ranks):
            inputs, targets = data.batch(
                streams.held_out,
                seed=HELD_OUT_SEED,
                step=0,
                part=number,
                parts=HELD_OUT_SEQUENCES,
                micro_batch=1,
                seq_len=config.data.seq_len,
            )
            total += stepper.model(inputs.to(where), targets.to(where))
    mean = float(torch_ranks.mean_over_ranks(total, context))
    return mean * context.ranks / HELD_OUT_SEQUENCES


def record_of(
    result: RunResult, config: ZayaConfig, context: RankContext, *, is_tuned: bool
) -> Measurement:
    """Return the run as a record."""
    return result.record(
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
            device=context.device.torch_name.split(":")[0],
            ranks=context.ranks,
            threads=torch.get_num_threads(),
        ),
        device=context.device,
        flop=shapes.flop_per_token(config) * tokens_of_a_step(config, ranks=context.ranks),
    )
