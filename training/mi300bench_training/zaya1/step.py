"""One training step: loss, gradients (DDP reduces them over the ranks), AdamW, balancing."""

import contextlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from mi300bench_training import torch_optimizer
from mi300bench_training.schedule import warmup_cosine
from mi300bench_training.zaya1.config import DEFAULT, DdpConfig, ZayaConfig, ZayaOptimizerConfig
from mi300bench_training.zaya1.model import Zaya

# The learning rate falls to this share of its peak.
FLOOR = Fraction(1, 3)


def wrap(model: Zaya, ddp: DdpConfig) -> DistributedDataParallel:
    """Return the model under DDP with the configured buckets.

    Gradients are views of the buckets, so they are not copied.
    """
    caps: dict[str, object] = {}
    if isinstance(ddp.bucket_cap_mb, list):
        caps["bucket_cap_mb_list"] = ddp.bucket_cap_mb
    elif ddp.bucket_cap_mb != DEFAULT:
        caps["bucket_cap_mb"] = ddp.bucket_cap_mb
    # The balancer keeps the biases of all ranks equal, so DDP must not send buffers. torch 2.13
    # renamed this option.
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    sync = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    return DistributedDataParallel(model, gradient_as_bucket_view=True, **{sync: False}, **caps)


def learning_rate(config: ZayaOptimizerConfig, step: int, steps: int) -> float:
    """Return the learning rate of `step`: linear warm-up, then a cosine to a third of the peak."""
    return warmup_cosine(
        step, peak=config.lr, warmup_steps=config.warmup_steps, steps=steps, floor=FLOOR
    )


class Balancer:
    """Moves the routers' biases to an even load, by AdamW on each share's distance from 1/E.

    Counts are summed over micro-batches and ranks, so all ranks have the same biases. The bias of
    the skip expert does not change.
    """

    def __init__(self, model: Zaya, lr: float, *, over_ranks: bool) -> None:
        self.over_ranks = over_ranks
        self.routers = [block.router for block in model.blocks]
        self.experts = model.model.experts
        self.biases = torch.stack([router.balance for router in self.routers])
        self.step_of = torch.optim.AdamW([self.biases], lr=lr, betas=(0.9, 0.999), weight_decay=0.0)
        self.counts = torch.zeros_like(self.biases)

    def count(self) -> None:
        """Add the choices of the last forward pass."""
        self.counts += torch.stack(
            [torch.bincount(router.chosen_N, minlength=self.experts + 1) for router in self.routers]
        )

    def shares(self) -> torch.Tensor:
        """Return each expert's share of all tokens since the last step, as [blocks, E + 1]."""
        counts, self.counts = self.counts, torch.zeros_like(self.counts)
        if self.over_ranks:
            dist.all_reduce(counts)
        return counts / counts.sum(dim=1, keepdim=True)

    def step(self) -> torch.Tensor:
        """Update the biases from the counts since the last step; return the shares."""
        shares = self.shares()
        gradient = shares - shares[:, :-1].sum(dim=1, keepdim=True) / self.experts
        gradient[:, -1] = 0.0
        self.biases.grad = gradient
        self.step_of.step()
        for router, bias in zip(self.routers, self.biases, strict=True):
            router.balance.copy_(bias)
        return shares


@dataclass(slots=True, kw_only=True)
class Stepper:
    """Model, optimizer and balancer of a run."""

    config: ZayaConfig
    model: Zaya
    trained: torch.nn.Module  # the model, or the model under DDP
    optimizer: torch.optim.AdamW
    balancer: Balancer

    def forward(self, inputs_BT: torch.Tensor, targets_BT: torch.Tensor) -> torch.Tensor:
        """Return the loss of one micro-batch."""
        loss: torch.Tensor = self.trained(inputs_BT, targets_BT)
        self.balancer.count()
        return loss

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of one micro-batch, as its part of the mean over all of them."""
        (loss / self.config.data.accumulate).backward()

    def is_last(self, micro: int) -> bool:
        """Return whether `micro` is the last micro-batch of a step."""
        return micro + 1 == self.config.data.accumulate

    def quiet(self, micro: int) -> contextlib.AbstractContextManager[None]:
        """Keep DDP from reducing before the last micro-batch."""
        if self.is_last(micro) or not isinstance(self.trained, DistributedDataParallel):
            return contextlib.nullcontext()
        silence: contextlib.AbstractContextManager[None] = self.trained.no_sync()
        return silence

    def gradients(self, micro_batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        """Return the mean loss of a step's micro-batches; gradients are summed and reduced."""
        total = torch.zeros(())
        for micro, (inputs_BT, targets_BT) in enumerate(micro_batches):
            with self.quiet(micro):
                loss = self.forward(inputs_BT, targets_BT)
                self.backward(loss)
            total = total.to(loss.device) + loss.detach()
        return total / self.config.data.accumulate

    def update(self, step: int) -> None:
        """Apply the gradients: clip, AdamW, balance, clear."""
        rate = learning_rate(self.config.optimizer, step, self.config.steps)
        torch_optimizer.set_learning_rate(self.optimizer, rate)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optimizer.clip)
        self.optimizer.step()
        self.balancer.step()
        self.optimizer.zero_grad(set_to_none=True)


def stepper(config: ZayaConfig, model: Zaya, *, communicate: bool) -> Stepper:
    """Return the stepper of a model, under DDP if ranks communicate."""
    trained = wrap(model, config.ddp) if communicate else model
    return Stepper(
        config=config,
        model=model,
        trained=trained,
        optimizer=torch_optimizer.adamw(model.parameters(), config.optimizer),
        balancer=Balancer(model, config.optimizer.balance_lr, over_ranks=communicate),
    )
