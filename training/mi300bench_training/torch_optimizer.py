"""AdamW under torch, with the groups that every trainer uses."""

from collections.abc import Iterable

import torch

from mi300bench_training.adamw import AdamWConfig


def adamw(parameters: Iterable[torch.nn.Parameter], config: AdamWConfig) -> torch.optim.AdamW:
    """Return AdamW; matrices decay, vectors do not."""
    listed = list(parameters)
    groups = [
        {"params": [p for p in listed if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in listed if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2), fused=True)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use `rate` for all parameters from the next step on."""
    for group in optimizer.param_groups:
        group["lr"] = rate
