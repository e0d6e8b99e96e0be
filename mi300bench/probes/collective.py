"""Collectives: the time of one operation of total size S bytes among all ranks.

S is the total, as nccl-tests counts: the output of an all_gather, the input of a reduce_scatter. Calls of
a sample depend on each other (a broadcast's root rotates, a send is answered), so a sample of many calls
holds as many latencies. gloo's own reduce_scatter is an all-reduce and a copy; there it is built from an
all_to_all and a local sum.

params: bytes, dtype
"""

import abc
from collections.abc import Mapping
from typing import final

import torch
import torch.distributed as dist

from mi300bench.schema.probe import AbstractProbe, Seat
from mi300bench.schema.record import Scalar, Work


class AbstractCollective(AbstractProbe):
    """One collective over the default group."""

    def __init__(self, params: Mapping[str, Scalar], seat: Seat) -> None:
        super().__init__(params, seat)
        self.dtype = getattr(torch, str(params["dtype"]))
        wanted = int(str(params["bytes"])) // self.dtype.itemsize
        # Every rank's part has the same whole number of elements, at least one.
        self.part = max(1, -(-wanted // seat.ranks))
        self.elements = self.part * seat.ranks

    def work(self) -> Work:
        return Work(message_bytes=self.elements * self.dtype.itemsize)

    def pattern(self, rank: int, elements: int) -> torch.Tensor:
        """Return small whole numbers that tell ranks and positions apart, exact in every dtype."""
        values = torch.arange(elements) % 5 + rank + 1
        return values.to(device=self.seat.device.torch_name, dtype=self.dtype)

    def prepare(self) -> None:
        """Allocate the input and the output."""
        self.whole = self.pattern(self.seat.rank, self.elements)
        self.mine = self.pattern(self.seat.rank, self.part)

    @abc.abstractmethod
    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the operation on fresh input; return what came out and what should have."""

    def check(self) -> str:
        seen, expected = self.answer()
        wrong = int((seen != expected).sum())
        return f"{wrong} of {seen.numel()} elements are wrong" if wrong else ""


@final
class AllReduce(AbstractCollective):
    """Sum in place. Where the backend averages, it does, so that values stay finite over many calls."""

    def prepare(self) -> None:
        super().prepare()
        self.op = dist.ReduceOp.AVG if self.seat.device.backend == "nccl" else dist.ReduceOp.SUM

    def call(self) -> None:
        dist.all_reduce(self.whole, op=self.op)

    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        seen = self.pattern(self.seat.rank, self.elements)
        dist.all_reduce(seen)
        expected = sum(self.pattern(rank, self.elements) for rank in range(self.seat.ranks))
        return seen, torch.as_tensor(expected)


@final
class AllGather(AbstractCollective):
    """Every rank's part, concatenated."""

    def call(self) -> None:
        dist.all_gather_into_tensor(self.whole, self.mine)

    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        dist.all_gather_into_tensor(self.whole, self.pattern(self.seat.rank, self.part))
        return self.whole, torch.cat([self.pattern(rank, self.part) for rank in range(self.seat.ranks)])


@final
class ReduceScatter(AbstractCollective):
    """The sum, each rank its part. On gloo: an all_to_all and a local sum."""

    def prepare(self) -> None:
        super().prepare()
        self.received = torch.empty_like(self.whole)

    def call(self) -> None:
        if self.seat.device.backend == "gloo":
            dist.all_to_all_single(self.received, self.whole)
            torch.sum(self.received.view(self.seat.ranks, -1), dim=0, out=self.mine)
        else:
            dist.reduce_scatter_tensor(self.mine, self.whole)

    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.whole = self.pattern(self.seat.rank, self.elements)
        self.call()
        summed = torch.as_tensor(sum(self.pattern(rank, self.elements) for rank in range(self.seat.ranks)))
        return self.mine, summed.view(self.seat.ranks, -1)[self.seat.rank]


@final
class AllToAll(AbstractCollective):
    """Part i of every rank goes to rank i."""

    def prepare(self) -> None:
        super().prepare()
        self.received = torch.empty_like(self.whole)

    def call(self) -> None:
        dist.all_to_all_single(self.received, self.whole)

    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.call()
        sent = [self.pattern(rank, self.elements).view(self.seat.ranks, -1) for rank in range(self.seat.ranks)]
        return self.received, torch.cat([parts[self.seat.rank] for parts in sent])


@final
class Broadcast(AbstractCollective):
    """One rank's array to all. The root rotates, so that a call waits for the one before it."""

    def __init__(self, params: Mapping[str, Scalar], seat: Seat) -> None:
        super().__init__(params, seat)
        self.calls_multiple = seat.ranks
        self._turn = 0

    def call(self) -> None:
        dist.broadcast(self.whole, src=self._turn % self.seat.ranks)
        self._turn += 1

    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        root = self.seat.ranks - 1
        seen = self.pattern(self.seat.rank, self.elements)
        dist.broadcast(seen, src=root)
        return seen, self.pattern(root, self.elements)


@final
class SendRecv(AbstractCollective):
    """Ranks 0 and 1, 2 and 3, ...: even to odd, then odd to even. A last rank without a partner waits."""

    calls_multiple = 2

    def __init__(self, params: Mapping[str, Scalar], seat: Seat) -> None:
        super().__init__(params, seat)
        self._turn = 0

    def call(self) -> None:
        even_sends = self._turn % 2 == 0
        self._turn += 1
        self._exchange(self.whole, even_sends=even_sends)

    def _exchange(self, array: torch.Tensor, *, even_sends: bool) -> None:
        partner = self.seat.rank ^ 1
        if partner >= self.seat.ranks:
            return
        if (self.seat.rank % 2 == 0) == even_sends:
            dist.send(array, dst=partner)
        else:
            dist.recv(array, src=partner)

    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        seen = self.pattern(self.seat.rank, self.elements)
        self._exchange(seen, even_sends=True)
        partner = self.seat.rank ^ 1
        is_receiver = self.seat.rank % 2 == 1 and partner < self.seat.ranks
        return seen, self.pattern(partner if is_receiver else self.seat.rank, self.elements)
