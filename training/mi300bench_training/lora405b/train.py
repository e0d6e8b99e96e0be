"""A run from start to end: devices, text, weights, adapters, steps, held-out loss, one record.

It is the same on any mesh. Of several processes (see `multihost`), only process 0 prints and saves.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from mi300bench.device.jax_device import JaxDevice
from mi300bench.schema.record import Measurement, World

from mi300bench_training.checkpoint import resume_line
from mi300bench_training.ending import Ending, ending_after, is_save_due
from mi300bench_training.history import RunHistory, RunResult
from mi300bench_training.lora405b import data, multihost, shapes, sharding, step
from mi300bench_training.lora405b.config import LoraRunConfig
from mi300bench_training.lora405b.data import Cursor, PackedText
from mi300bench_training.lora405b.files import checkpoint, peft_files, weights
from mi300bench_training.lora405b.files.checkpoint import LoraRun
from mi300bench_training.lora405b.readings import Stopwatch, live_bytes
from mi300bench_training.stopping import stop_between_steps

METHOD = 1
HELD_OUT_ROWS = 32


def main(
    config: LoraRunConfig,
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
    """Train for `config.steps` steps; pass one record to `sink` and return it."""
    del threads  # XLA chooses the size of its own pool
    multihost.join()
    is_first = jax.process_index() == 0
    talk = say if is_first else lambda _: None
    device, mesh = JaxDevice(kind), sharding.make_mesh(config.mesh)
    for line in model_lines(config):
        talk(line)
    packed = data.load(config.data, vocab=config.model.vocab)
    rows, held = len(packed.train["tokens"]), len(packed.held_out["tokens"])
    talk(f"text: {packed.source}, {rows} rows of {config.data.seq_len} tokens, {held} held out")
    frozen = weights.load_or_draw(config, mesh)
    fresh = start_state(config)
    run = LoraRun(state=fresh, cursor=Cursor(), history=RunHistory())
    text = packed.digest if folder else ""
    if folder and resume:
        run = checkpoint.load(folder, config, fresh, text=text) or run
        talk(resume_line(folder, run.history.steps))

    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    history, cursor = run.history, run.cursor
    state = jax.device_put(run.state, sharding.shardings(mesh, fresh))
    take_step = step.jitted(config, mesh)
    tokens = config.data.batch * config.data.seq_len
    ending = Ending.FINISHED if history.steps == config.steps else None
    with stop_between_steps() as stop:
        while ending is None:
            batch, cursor = cursor.take(packed.train, config.data.batch, config.seed)
            watch = Stopwatch()
            state, answer = take_step(frozen, state, sharding.place_rows(mesh, batch))
            loss = float(answer["loss"])
            seconds, busy = watch.stop()
            history.add(loss, seconds, live_bytes=live_bytes(), busy=busy)
            talk(history.progress_line(tokens=tokens))
            is_stopped = multihost.any_of(stop.is_set())
            ending = ending_after(
                step=history.steps, steps=config.steps, loss=loss, is_interrupted=is_stopped
            )
            if folder and is_save_due(step=history.steps, every=every, ending=ending):
                now = LoraRun(state=state, cursor=cursor, history=history)
                checkpoint.save_from_first(folder, config, now, text=text)
    is_finished = ending is Ending.FINISHED
    result = RunResult(
        history=history,
        ending=ending,
        steps=config.steps,
        held_out_loss=held_out_loss(config, mesh, frozen, state["adapters"], packed)
        if is_finished
        else None,
        started_at=started_at,
    )
    record = record_of(result, config, device, is_tuned=is_tuned)
    if is_first:
        sink(record)
    talk(result.summary)
    return record


def preflight(config: LoraRunConfig, *, folder: Path | None) -> None:
    """Raise the errors of a run's text, adapter and checkpoint in `folder`, before it starts."""
    data.load(config.data, vocab=config.model.vocab)
    if config.adapter:
        peft_files.require_same(Path(config.adapter), config.lora)
    if folder is not None:
        checkpoint.check(folder)


def model_lines(config: LoraRunConfig) -> list[str]:
    """Return lines about the size of the model and its mesh."""
    frozen = shapes.count(shapes.parameters(config.model))
    adapters = shapes.count(shapes.adapters(config.model, config.lora))
    mesh = config.mesh
    kind = jax.devices()[0].device_kind
    return [
        f"lora405b {config.preset}: {frozen:,} frozen parameters, {adapters:,} in adapters",
        f"mesh dp={mesh.dp} fsdp={mesh.fsdp} mp={mesh.mp} of {kind}",
    ]


def start_state(config: LoraRunConfig) -> Any:
    """Return the state before the first step, on the host; adapters are new or from a folder."""
    key = jax.random.fold_in(jax.random.key(config.seed), 1)
    state = jax.device_get(step.new_state(config, key))
    if config.adapter:
        peft_files.require_same(Path(config.adapter), config.lora)
        state["adapters"] = peft_files.load(Path(config.adapter), config.model, config.lora)
    return state


def held_out_loss(
    config: LoraRunConfig, mesh: Mesh, frozen: Any, adapters: Any, packed: PackedText
) -> float:
    """Return the mean loss on the held-out rows; it does not depend on the mesh.

    Rows without targets fill the last batch.
    """
    groups = config.mesh.dp * config.mesh.fsdp
    rows = {name: value[:HELD_OUT_ROWS] for name, value in packed.held_out.items()}
    tokens = int((rows["targets"] != data.IGNORED).sum())
    spare = -len(rows["tokens"]) % groups
    rows = {
        name: np.concatenate([value, np.repeat(value[:1], spare, axis=0)])
        for name, value in rows.items()
    }
    if spare:
        rows["targets"][-spare:] = data.IGNORED
    placing = sharding.Placing(mesh)
    summed_loss = jax.jit(
        lambda frozen, low, batch: step.summed_loss(config, frozen, low, batch, None, placing)
    )
    total = 0.0
    for first in range(0, len(rows["tokens"]), groups):
        part = {name: value[first : first + groups] for name, value in rows.items()}
        total += float(summed_loss(frozen, adapters, sharding.place_rows(mesh, part)))
    return total / max(tokens, 1)


def record_of(
    result: RunResult, config: LoraRunConfig, device: JaxDevice, *, is_tuned: bool
) -> Measurement:
    """Return the run as a record."""
    return result.record(
        probe="lora405b.train",
        method=METHOD,
        params={
            "preset": config.preset,
            "steps": config.steps,
            "seed": config.seed,
            "data.batch": config.data.batch,
            "data.seq_len": config.data.seq_len,
            "data.accumulate": config.data.accumulate,
            "mesh": f"{config.mesh.dp},{config.mesh.fsdp},{config.mesh.mp}",
            "compute.remat": config.compute.remat,
            "lora.rank": config.lora.rank,
            "precision": config.precision,
            "tuned": is_tuned,
        },
        world=World(device=device.kind, ranks=config.mesh.devices, threads=0, framework="jax"),
        device=device,
        flop=shapes.flop_per_token(config) * config.data.batch * config.data.seq_len,
    )
