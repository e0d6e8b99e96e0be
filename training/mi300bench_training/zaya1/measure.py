"""The probes of ZAYA1: when each gradient is ready, the time of a step, and its memory.

They run the trainer's own code on real text.

params: preset, and any key of the trainer's config in dotted form (`data.micro_batch`,
`compute.experts`, `model.hidden`); `ddp.bucket_cap_mb` as text (``default``, MiB, or caps joined by
commas)
"""

import gc
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, final

import torch
import torch.distributed as dist
from mi300bench.schema.probe import AbstractProbe, RankContext
from mi300bench.schema.record import Scalar, Series, Work

from mi300bench_training.zaya1 import data, model, shapes, step
from mi300bench_training.zaya1.spec import TRAINER

PHASES = ("forward_s", "backward_s", "update_s")
# Memory reaches its peak after the second step, with optimizer state and DDP's rebuilt buckets.
MEMORY_STEPS = 3


def keep_local(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Replace DDP's all-reduce: a full bucket is done at once."""
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class AbstractTraining(AbstractProbe):
    """A training step as the call of a probe, with marks between its phases."""

    communicates = False

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.config = TRAINER.from_params(params)
        self.steps = 0
        self.loss = torch.tensor(float("nan"))
        self._phases: list[tuple[Any, ...]] = []

    def prepare(self) -> None:
        self.corpus = data.load(self.config)
        self.build()

    def build(self) -> None:
        """Build model, optimizer and, if ranks communicate, DDP."""
        built = model.build(self.config, device=self.context.device.torch_name)
        self.stepper = step.stepper(
            self.config, built, communicate=self.communicates and self.context.ranks > 1
        )

    def batches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the micro-batches of this rank for the next step, on the device."""
        context = self.context
        return data.micro_batches(
            self.corpus,
            self.config,
            step=self.steps,
            rank=context.rank,
            ranks=context.ranks,
            device=context.device.torch_name,
        )

    def call(self) -> None:
        mark = self.context.device.mark
        marks = []
        for micro, (inputs, targets) in enumerate(self.batches()):
            with self.stepper.quiet(micro):
                marks.append(mark())
                self.loss = self.stepper.forward(inputs, targets)
                marks.append(mark())
                self.stepper.backward(self.loss)
        marks.append(mark())
        self.stepper.update(self.steps)
        marks.append(mark())
        self._phases.append(tuple(marks))
        self.steps += 1

    def work(self) -> Work:
        tokens = (
            self.config.data.seq_len * self.config.data.micro_batch * self.config.data.accumulate
        )
        return Work(flop=shapes.flop_per_token(self.config) * tokens)

    def check(self) -> str:
        return "" if bool(torch.isfinite(self.loss)) else f"the loss is {float(self.loss)}"

    def phases(self, samples: int) -> dict[str, tuple[float, ...]]:
        """Return the seconds of each phase in each step on this rank, over all micro-batches."""
        between = self.context.device.between
        rows = []
        for marks in self._phases[-samples:]:
            spans = [between(a, b) for a, b in itertools.pairwise(marks)]
            rows.append((sum(spans[:-1:2]), sum(spans[1:-1:2]), spans[-1]))
        return {name: tuple(row[i] for row in rows) for i, name in enumerate(PHASES)}

    def expert_load(self) -> tuple[float, ...]:
        """Return the tokens of the fullest expert over an even share, for each block."""
        experts = self.config.model.experts
        counts = [
            torch.bincount(block.router.chosen_N, minlength=experts)[:experts]
            for block in self.stepper.model.blocks
        ]
        return tuple(float(count.max() * experts / count.sum().clamp_min(1)) for count in counts)

    def largest_of_ranks(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """Return the largest value of all ranks at each position."""
        if self.context.ranks == 1:
            return values
        together = torch.tensor(values, dtype=torch.float64, device=self.context.device.torch_name)
        dist.all_reduce(together, op=dist.ReduceOp.MAX)
        return tuple(float(value) for value in together)


@final
class ZayaStep(AbstractTraining):
    """One whole step: forward, backward with its all-reduces, update."""

    communicates = True

    def series(self, samples: int) -> Series:
        return {
            **self.phases(samples),
            "bucket_bytes": self.bucket_bytes(),
            "expert_load": self.expert_load(),
            "loss": (float(self.loss),),
        }

    def bucket_bytes(self) -> tuple[int, ...]:
        """Return the sizes of the buckets that DDP uses after its second step."""
        if self.context.ranks == 1:
            return ()
        logged = self.stepper.trained._get_ddp_logging_data()
        return tuple(int(size) for size in logged["rebuilt_bucket_sizes"].split(","))


@final
class Backward(AbstractTraining):
    """The step without communication, and the time from backward's start to each gradient."""

    def build(self) -> None:
        super().build()
        if self.context.ranks > 1:
            # DDP without communication, because copying gradients into buckets takes time as well.
            wrapped = step.wrap(self.stepper.model, self.config.ddp)
            wrapped.register_comm_hook(None, keep_local)
            self.stepper.trained = wrapped
        self._ready: list[list[tuple[int, Any]]] = []
        self.names: list[str] = []
        self.bytes: list[int] = []
        for index, (name, parameter) in enumerate(self.stepper.model.named_parameters()):
            self.names.append(name)
            self.bytes.append(parameter.numel() * parameter.element_size())
            parameter.register_post_accumulate_grad_hook(lambda _, i=index: self._note(i))

    def _note(self, index: int) -> None:
        self._ready[-1].append((index, self.context.device.mark()))

    def call(self) -> None:
        self._ready.append([])
        super().call()

    def series(self, samples: int) -> Series:
        between = self.context.device.between
        order = [index for index, _ in self._ready[-1][-len(self.names) :]]
        readings: list[float] = []
        for ready, phase in zip(self._ready[-samples:], self._phases[-samples:], strict=True):
            moments = dict(ready)
            # Only the backward pass of the last micro-batch reduces gradients.
            readings += [between(phase[-3], moments[index]) for index in order]
        phases = {
            name: self.largest_of_ranks(values) for name, values in self.phases(samples).items()
        }
        return {
            **phases,
            "parameter": tuple(self.names[index] for index in order),
            "parameter_bytes": tuple(self.bytes[index] for index in order),
            "ready_s": self.largest_of_ranks(tuple(readings)),
            "expert_load": self.expert_load(),
        }


@final
class Memory(AbstractTraining):
    """The peak memory of a rank, from an empty process through building and training.

    The call is a step.
    """

    communicates = True

    def build(self) -> None:
        def run() -> None:
            super(Memory, self).build()
            for _ in range(MEMORY_STEPS):
                self.call()

        self.held = self.context.device.held_memory(run)
        # Free the first run's tensors before the allocator is watched; freed later, they would
        # distort the second run's peak.
        del self.stepper, self.loss
        gc.collect()
        self.peak_bytes = self.context.device.peak_memory(run)

    def series(self, samples: int) -> Series:
        """Return the worst rank's bytes: tensors at their peak, process before and at its peak."""
        return {
            "peak_bytes": self.largest_of_ranks((self.peak_bytes,)),
            "held_before_bytes": self.largest_of_ranks((self.held[0],)),
            "held_bytes": self.largest_of_ranks((self.held[1],)),
            "expert_load": self.expert_load(),
        }
