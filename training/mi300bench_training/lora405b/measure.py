"""The probe of the LoRA trainer: the time of a step on a mesh of this process's devices.

It runs the trainer's own code on real text.

params: preset, and any key of the trainer's config in dotted form (`mesh.fsdp`, `compute.remat`,
`data.batch`)
"""

import math
from collections.abc import Mapping
from typing import final

import jax
from mi300bench.schema.probe import AbstractProbe, RankContext
from mi300bench.schema.record import Scalar, Series, Work

from mi300bench_training.lora405b import data, shapes, sharding, step
from mi300bench_training.lora405b.data import Cursor
from mi300bench_training.lora405b.files import weights
from mi300bench_training.lora405b.readings import live_bytes
from mi300bench_training.lora405b.spec import TRAINER
from mi300bench_training.lora405b.train import start_state


@final
class LoraStep(AbstractProbe):
    """One whole step: forward, backward, update of the adapters.

    Placing the batch on the devices is not part of it.
    """

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.config = TRAINER.from_params(params)

    def prepare(self) -> None:
        config = self.config
        mesh = sharding.make_mesh(config.mesh, jax.devices()[: config.mesh.devices])
        packed = data.load(config.data, vocab=config.model.vocab)
        self.frozen = weights.load_or_draw(config, mesh)
        state = start_state(config)
        self.state = jax.device_put(state, sharding.shardings(mesh, state))
        rows, _ = Cursor().take(packed.train, config.data.batch, config.seed)
        self.batch = sharding.place_rows(mesh, rows)
        self.run = step.jitted(config, mesh)

    def call(self) -> None:
        self.state, answer = self.run(self.frozen, self.state, self.batch)
        self.loss = answer["loss"]
        self.context.device.pending = (self.loss, self.state)

    def work(self) -> Work:
        tokens = self.config.data.batch * self.config.data.seq_len
        return Work(flop=shapes.flop_per_token(self.config) * tokens)

    def check(self) -> str:
        loss = float(self.loss)
        return "" if math.isfinite(loss) else f"the loss is {loss}"

    def series(self, samples: int) -> Series:
        return {"loss": (float(self.loss),), "live_bytes": (live_bytes(),)}
