"""ZAYA1 as probes: when each gradient is ready, and what a whole step takes. On real text, through the trainer's code.

params: preset, seq_len, micro_batch (per rank), bucket_cap_mb for the step (``default``, MiB, or caps joined by commas)
"""

import itertools
from collections.abc import Mapping
from typing import Any, final

import torch
import torch.distributed as dist
from mi300bench.schema.probe import AbstractProbe, Seat
from mi300bench.schema.record import Scalar, Series, Work

from mi300bench_training.zaya1 import data, model, shapes, step
from mi300bench_training.zaya1.config import DEFAULT, TrainConfig, override, preset

PHASES = ("forward_s", "backward_s", "update_s")


def parse_caps(text: str) -> str | float | list[float]:
    """Return ``default``, one cap in MiB, or a list of caps, from a point's parameter."""
    if text == DEFAULT:
        return DEFAULT
    caps = [float(part) for part in text.split(",")]
    return caps if len(caps) > 1 else caps[0]


def config_of(params: Mapping[str, Scalar]) -> TrainConfig:
    """Return the training config that a point describes."""
    config = preset(str(params["preset"]))
    for name in ("seq_len", "micro_batch"):
        config = override(config, f"data.{name}", int(str(params[name])))
    return override(config, "ddp.bucket_cap_mb", parse_caps(str(params.get("bucket_cap_mb", DEFAULT))))


def keep_local(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Stand in for DDP's all-reduce: the bucket is done as soon as it is full."""
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class AbstractTraining(AbstractProbe):
    """A training step as the call of a probe, marked between its phases."""

    communicates = False

    def __init__(self, params: Mapping[str, Scalar], seat: Seat) -> None:
        super().__init__(params, seat)
        self.config = config_of(params)
        self.steps = 0
        self.loss = torch.tensor(float("nan"))
        self._phases: list[tuple[Any, ...]] = []

    def prepare(self) -> None:
        where = self.seat.device.torch_name
        self.corpus = data.load(self.config)
        built = model.build(self.config.model, seed=self.config.seed, device=where, precision=self.config.precision)
        self.stepper = step.stepper(self.config, built, communicate=self.communicates and self.seat.ranks > 1)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the next batch of this rank, on the device."""
        inputs, targets = data.batch(
            self.corpus.train,
            seed=self.config.seed,
            step=self.steps,
            rank=self.seat.rank,
            ranks=self.seat.ranks,
            micro_batch=self.config.data.micro_batch,
            seq_len=self.config.data.seq_len,
        )
        where = self.seat.device.torch_name
        return inputs.to(where), targets.to(where)

    def call(self) -> None:
        mark = self.seat.device.mark
        inputs, targets = self.batch()
        marks = [mark()]
        self.loss = self.stepper.forward(inputs, targets)
        marks.append(mark())
        self.loss.backward()
        marks.append(mark())
        self.stepper.update(self.steps)
        marks.append(mark())
        self._phases.append(tuple(marks))
        self.steps += 1

    def work(self) -> Work:
        tokens = self.config.data.seq_len * self.config.data.micro_batch
        return Work(flop=shapes.flop_per_token(self.config) * tokens)

    def check(self) -> str:
        return "" if bool(torch.isfinite(self.loss)) else f"the loss is {float(self.loss)}"

    def phases(self, samples: int) -> dict[str, tuple[float, ...]]:
        """Return the seconds of each phase of the last `samples` steps on this rank."""
        between = self.seat.device.between
        rows = [[between(a, b) for a, b in itertools.pairwise(m)] for m in self._phases[-samples:]]
        return {name: tuple(row[i] for row in rows) for i, name in enumerate(PHASES)}

    def largest_of_ranks(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """Return, per position, the largest value of all ranks."""
        if self.seat.ranks == 1:
            return values
        together = torch.tensor(values, dtype=torch.float64, device=self.seat.device.torch_name)
        dist.all_reduce(together, op=dist.ReduceOp.MAX)
        return tuple(float(value) for value in together)


@final
class Step(AbstractTraining):
    """One whole step: forward, backward with its reductions, update."""

    communicates = True

    def series(self, samples: int) -> Series:
        return {**self.phases(samples), "bucket_bytes": self.bucket_bytes(), "loss": (float(self.loss),)}

    def bucket_bytes(self) -> tuple[int, ...]:
        """Return the sizes of the buckets that DDP really uses since its second step."""
        if self.seat.ranks == 1:
            return ()
        logged = self.stepper.trained._get_ddp_logging_data()
        return tuple(int(size) for size in logged["rebuilt_bucket_sizes"].split(","))


@final
class Backward(AbstractTraining):
    """The step without communication, and the moment each gradient is ready, from the start of backward."""

    def prepare(self) -> None:
        super().prepare()
        if self.seat.ranks > 1:
            # DDP with all that it does beside communicating: copying gradients into buckets costs compute time too.
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
        self._ready[-1].append((index, self.seat.device.mark()))

    def call(self) -> None:
        self._ready.append([])
        super().call()

    def series(self, samples: int) -> Series:
        between = self.seat.device.between
        order = [index for index, _ in self._ready[-1]]
        readings: list[float] = []
        for ready, phase in zip(self._ready[-samples:], self._phases[-samples:], strict=True):
            moments = dict(ready)
            readings += [between(phase[1], moments[index]) for index in order]
        phases = {name: self.largest_of_ranks(values) for name, values in self.phases(samples).items()}
        return {
            **phases,
            "parameter": tuple(self.names[index] for index in order),
            "parameter_bytes": tuple(self.bytes[index] for index in order),
            "ready_s": self.largest_of_ranks(tuple(readings)),
        }
