"""The story of a run: devices, text, weights, adapters, steps, held-out loss, one record. The same on one device and on a mesh.

Several processes join through `jax.distributed`, told by Slurm, by Open MPI, by torchrun (RANK, WORLD_SIZE, MASTER_ADDR) or by
hand (JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID); process 0 alone talks and saves.
"""

import math
import os
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from mi300bench.device.jax_device import JaxDevice
from mi300bench.schema.record import Measurement, Outcome, World
from mi300bench.schema.record import Work as Done

from mi300bench_training.lora405b import (
    checkpoint,
    data,
    peft_files,
    shapes,
    sharding,
    step,
    together,
    weights,
)
from mi300bench_training.lora405b.checkpoint import Saved
from mi300bench_training.lora405b.config import TrainConfig
from mi300bench_training.lora405b.data import Corpus, Cursor
from mi300bench_training.stopping import stop_between_steps

METHOD = 1
HELD_OUT_ROWS = 32


def join() -> None:
    """Join the processes of an outside launcher, where there is one."""
    told = os.environ
    count = told.get("JAX_NUM_PROCESSES", told.get("WORLD_SIZE", ""))
    mine = told.get("JAX_PROCESS_ID", told.get("RANK", ""))
    if count and mine:
        # torchrun's own store listens on MASTER_PORT, so the coordinator takes the port above.
        beside = (
            f"{told.get('MASTER_ADDR', '127.0.0.1')}:{int(told.get('MASTER_PORT', '29500')) + 1}"
        )
        jax.distributed.initialize(
            told.get("JAX_COORDINATOR_ADDRESS", beside), int(count), int(mine)
        )
    elif int(told.get("SLURM_NTASKS", told.get("OMPI_COMM_WORLD_SIZE", "1"))) > 1:
        jax.distributed.initialize()


def place(mesh: Mesh, rows: dict[str, Any]) -> dict[str, jax.Array]:
    """Return a batch of rows on the mesh; each process gives the rows of its own devices."""
    spot = NamedSharding(mesh, sharding.BATCH)
    return {
        name: jax.make_array_from_callback(
            value.shape, spot, lambda index, value=value: value[index]
        )
        for name, value in rows.items()
    }


def preflight(config: TrainConfig, *, folder: Path | None) -> None:
    """Raise what a run of `config` would raise over its text, its adapter, and the checkpoint to resume in `folder`."""
    data.load(config.data, vocab=config.model.vocab)
    if config.adapter:
        peft_files.require_same(Path(config.adapter), config.lora)
    if folder is not None and checkpoint.found(folder):
        checkpoint.read(checkpoint.found(folder)[-1])


def start_state(config: TrainConfig) -> Any:
    """Return the state before the first step, on the host: drawn adapters, or those of a PEFT folder."""
    state = jax.device_get(
        step.new_state(config, jax.random.fold_in(jax.random.key(config.seed), 1))
    )
    if config.adapter:
        peft_files.require_same(Path(config.adapter), config.lora)
        state["adapters"] = peft_files.load(Path(config.adapter), config.model, config.lora)
    return state


def live_bytes() -> float:
    """Return the bytes of live arrays on the first local device: what the program holds, not the pool that the client has taken."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_in_use" in stats:
        return float(stats["bytes_in_use"])
    first = jax.local_devices()[0]
    return float(
        sum(
            s.data.nbytes
            for array in jax.live_arrays()
            for s in array.addressable_shards
            if s.device == first
        )
    )


def held_out_loss(
    config: TrainConfig, mesh: Mesh, frozen: Any, adapters: Any, corpus: Corpus
) -> float:
    """Return the mean loss on the same held-out rows, whatever the mesh: batches are filled with rows that do not count."""
    groups = config.mesh.dp * config.mesh.fsdp
    rows = {name: value[:HELD_OUT_ROWS] for name, value in corpus.held_out.items()}
    tokens = int((rows["targets"] != data.IGNORED).sum())
    spare = -len(rows["tokens"]) % groups
    rows = {
        name: np.concatenate([value, np.repeat(value[:1], spare, axis=0)])
        for name, value in rows.items()
    }
    if spare:
        rows["targets"][-spare:] = data.IGNORED
    placing = sharding.Placing(mesh)
    run = jax.jit(
        lambda frozen, low, batch: step.summed_loss(config, frozen, low, batch, None, placing)
    )
    total = 0.0
    for first in range(0, len(rows["tokens"]), groups):
        part = {name: value[first : first + groups] for name, value in rows.items()}
        total += float(run(frozen, adapters, place(mesh, part)))
    return total / max(tokens, 1)


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
    """Train for `config.steps` steps; give the sink one record and return it. Process 0 alone talks and saves."""
    del threads  # XLA sizes its own pool
    join()
    is_first = jax.process_index() == 0
    talk = say if is_first else lambda _: None
    device = JaxDevice(kind)
    mesh = sharding.make_mesh(config.mesh)
    adapters = shapes.count(shapes.adapters(config.model, config.lora))
    talk(
        f"lora405b {config.preset}: {shapes.count(shapes.parameters(config.model)):,} frozen parameters, {adapters:,} in adapters"
    )
    talk(
        f"mesh dp={config.mesh.dp} fsdp={config.mesh.fsdp} mp={config.mesh.mp} of {jax.devices()[0].device_kind}"
    )
    corpus = data.load(config.data, vocab=config.model.vocab)
    rows, held = (len(part["tokens"]) for part in (corpus.train, corpus.held_out))
    talk(f"text: {corpus.source}, {rows} rows of {config.data.seq_len} tokens, {held} held out")
    frozen = (
        weights.load(Path(config.weights), config, mesh)
        if config.weights
        else weights.random_weights(config, mesh)
    )
    fresh = start_state(config)
    saved = (
        checkpoint.load(folder, config, fresh, text=corpus.digest) if folder and resume else None
    )
    if saved is None:
        if resume:
            talk(f"no checkpoint in {folder}: a new run begins")
        saved = Saved(
            state=fresh,
            cursor=Cursor(),
            losses=[],
            seconds=[],
            series={"live_bytes": [], "busy": []},
        )
    else:
        talk(f"resumed after {len(saved.losses)} steps from {folder}")
    cursor, losses, seconds, series = saved.cursor, saved.losses, saved.seconds, saved.series
    state = jax.device_put(saved.state, sharding.shardings(mesh, fresh))
    run = step.jitted(config, mesh)
    started, reason = datetime.now(UTC).isoformat(timespec="milliseconds"), ""
    with stop_between_steps() as stop:
        for number in range(len(losses), config.steps):
            batch, cursor = cursor.take(corpus.train, config.data.batch, config.seed)
            begin, busy = time.perf_counter(), _processor_seconds()
            state, told = run(frozen, state, place(mesh, batch))
            loss = float(told["loss"])
            took = time.perf_counter() - begin
            losses.append(loss)
            seconds.append(took)
            series["live_bytes"].append(live_bytes())
            series["busy"].append(
                (_processor_seconds() - busy) / took / len(os.sched_getaffinity(0))
            )
            rate = config.data.batch * config.data.seq_len / took
            talk(f"step {number + 1:>5}  loss {loss:.4f}  {took:.3f} s  {rate:.0f} tokens/s")
            if not math.isfinite(loss):
                reason = f"the loss became {loss} in step {number + 1}"
                break
            is_stopped = together.any_of(stop.is_set())
            if folder and ((number + 1) % every == 0 or is_stopped or number + 1 == config.steps):
                now = replace(saved, state=checkpoint.whole(state), cursor=cursor)
                save_once(folder, config, now, corpus.digest)
            if is_stopped and number + 1 < config.steps:
                reason = f"interrupted after {number + 1} of {config.steps} steps"
                break
    held_out = (
        held_out_loss(config, mesh, frozen, state["adapters"], corpus)
        if not reason
        else float("nan")
    )
    record = the_record(
        config,
        device,
        seconds,
        losses,
        held_out,
        series,
        is_tuned=is_tuned,
        started=started,
        reason=reason,
    )
    if is_first:
        sink(record)
    talk(reason or f"held-out loss {held_out:.4f}")
    return record


def save_once(folder: Path, config: TrainConfig, now: Saved, text: str) -> None:
    """Save in process 0; where that fails, every process ends, with a message of its own."""
    failure: Exception | None = None
    if jax.process_index() == 0:
        try:
            checkpoint.save(folder, config, now, text=text)
        except Exception as cause:  # noqa: BLE001 - whatever it is, the others must hear of it
            failure = cause
    together.require_all(failure, "saving the checkpoint")


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def the_record(
    config: TrainConfig,
    device: JaxDevice,
    seconds: list[float],
    losses: list[float],
    held_out: float,
    series: dict[str, list[float]],
    *,
    is_tuned: bool,
    started: str,
    reason: str,
) -> Measurement:
    """Return the run as a record: seconds per step, losses, live bytes and how busy the processor was, step by step."""
    tokens = config.data.batch * config.data.seq_len
    told = {name: tuple(values) for name, values in series.items()}
    return Measurement(
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
        outcome=Outcome.OK
        if not reason
        else Outcome.FAILED
        if reason.startswith("interrupted")
        else Outcome.WRONG_ANSWER,
        reason=reason,
        samples=tuple(seconds),
        work=Done(flop=shapes.flop_per_token(config) * tokens),
        series=told | {"loss": tuple(losses)} | ({} if reason else {"held_out_loss": (held_out,)}),
        conditions=device.conditions(),
        doubts=device.doubts(),
        device=device.name,
        started_at=started,
    )
