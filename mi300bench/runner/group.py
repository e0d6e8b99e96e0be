"""The ranks of a point and how they agree, always outside the timed window."""

import datetime
from typing import Any, Protocol, final


class Group(Protocol):
    """What timing needs from the ranks."""

    rank: int
    ranks: int

    def agree(self, value: Any) -> Any:
        """Return rank 0's value on every rank."""

    def align(self) -> None:
        """Return when all ranks have come here."""

    def gather(self, value: Any) -> list[Any]:
        """Return all ranks' values, on every rank."""


@final
class Solo:
    """A world of one rank."""

    rank = 0
    ranks = 1

    def agree(self, value: Any) -> Any:
        return value

    def align(self) -> None:
        """Return at once."""

    def gather(self, value: Any) -> list[Any]:
        return [value]


@final
class TorchGroup:
    """The ranks of torch.distributed. Talk runs over gloo, so that it never touches the GPU's streams."""

    def __init__(self, *, backend: str, limit_s: float) -> None:
        import torch.distributed as dist

        limit = datetime.timedelta(seconds=limit_s)
        dist.init_process_group(backend, timeout=limit)
        self._talk = dist.new_group(backend="gloo", timeout=limit) if backend != "gloo" else None
        self._dist = dist
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()

    def agree(self, value: Any) -> Any:
        box = [value]
        self._dist.broadcast_object_list(box, src=0, group=self._talk)
        return box[0]

    def align(self) -> None:
        self._dist.barrier(group=self._talk)

    def gather(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.ranks
        self._dist.all_gather_object(values, value, group=self._talk)
        return values

    def close(self) -> None:
        """Leave the group."""
        self._dist.destroy_process_group()
