"""The ranks of a run under torch: one process alone, or the group that torchrun made."""

import os

import torch
import torch.distributed as dist
from mi300bench.device.open import open_torch_device
from mi300bench.errors import PlanError
from mi300bench.schema.probe import RankContext


def join(kind: str, *, threads: int) -> RankContext:
    """Return this process's rank and device, in the group that torchrun made or alone."""
    device = open_torch_device(kind, threads=threads)
    if "RANK" not in os.environ:
        return RankContext(rank=0, ranks=1, device=device)
    dist.init_process_group(device.backend)
    return RankContext(rank=dist.get_rank(), ranks=dist.get_world_size(), device=device)


def leave(context: RankContext) -> None:
    """End the group of ranks, where there is one."""
    if context.ranks > 1:
        dist.destroy_process_group()


def mean_over_ranks(values: torch.Tensor, context: RankContext) -> torch.Tensor:
    """Return the mean over the ranks."""
    if context.ranks > 1:
        dist.all_reduce(values)
        values = values / context.ranks
    return values


def require_same_start(step: int, context: RankContext, folder: object) -> None:
    """Raise `PlanError` on every rank where the ranks start from different steps."""
    if context.ranks == 1:
        return
    own = torch.full((1,), step, dtype=torch.int64, device=context.device.torch_name)
    steps = [torch.zeros_like(own) for _ in range(context.ranks)]
    dist.all_gather(steps, own)
    starts = [int(each) for each in steps]
    if len(set(starts)) > 1:
        raise PlanError(
            f"the ranks see checkpoints of different steps in {folder}: {starts}",
            hint="--checkpoint must be a folder that all nodes share",
        )
