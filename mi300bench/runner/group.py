"""The ranks that measure a point. They exchange values only outside the timed window."""

import datetime
from typing import Any, Protocol, final


class Group(Protocol):
    """What `timing` needs of a group."""

    rank: int
    ranks: int

    def agree(self, value: Any) -> Any:
        """Return the value of rank 0 on every rank."""

    def align(self) -> None:
        """Wait until all ranks have called this."""

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks on every rank."""


@final
class Solo:
    """A group of one rank."""

    rank = 0
    ranks = 1

    def agree(self, value: Any) -> Any:
        return value

    def align(self) -> None:
        """Do nothing."""

    def gather(self, value: Any) -> list[Any]:
        return [value]


@final
class TorchGroup:
    """The ranks of torch.distributed. They exchange values over gloo, which uses no GPU stream."""

    def __init__(self, *, backend: str, limit_s: float) -> None:
        import torch.distributed as dist

        limit = datetime.timedelta(seconds=limit_s)
        dist.init_process_group(backend, timeout=limit)
        self._gloo = dist.new_group(backend="gloo", timeout=limit) if backend != "gloo" else None
        self._dist = dist
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()

    def agree(self, value: Any) -> Any:
        values = [value]
        self._dist.broadcast_object_list(values, src=0, group=self._gloo)
        return values[0]

    def align(self) -> None:
        self._dist.barrier(group=self._gloo)

    def gather(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.ranks
        self._dist.all_gather_object(values, value, group=self._gloo)
        return values

    def close(self) -> None:
        """Destroy the process group."""
        self._dist.destroy_process_group()
