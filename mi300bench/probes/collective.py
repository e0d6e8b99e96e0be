"""Collectives: the time of one operation of total size S among all ranks.

S is the total size, as in nccl-tests: the output of an all_gather, the input of a reduce_scatter.
The calls of a sample depend on each other (the root of a broadcast rotates, a send is answered), so
a sample contains the latency of each call. gloo's own reduce_scatter is an all-reduce and a copy;
with gloo, this probe uses an all_to_all and a local sum instead.

params: bytes (S), dtype, and for all_reduce also
        inflight (all-reduces at once, as with DDP's buckets; default 1)
"""

import abc
from collections.abc import Mapping
from typing import final

import torch
import torch.distributed as dist

from mi300bench.schema.probe import AbstractProbe, RankContext
from mi300bench.schema.record import Scalar, Work

# At most this many elements are checked, because the expected values need memory too.
MOST_CHECKED = 2**26


class AbstractCollective(AbstractProbe):
    """One collective among the ranks of the default group."""

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.dtype = getattr(torch, str(params["dtype"]))
        elements = int(str(params["bytes"])) // self.dtype.itemsize
        # The parts of all ranks have the same number of elements, at least one.
        self.part = max(1, -(-elements // context.ranks))
        self.elements = self.part * context.ranks

    def work(self) -> Work:
        return Work(message_bytes=self.elements * self.dtype.itemsize)

    def pattern(self, rank: int, elements: int) -> torch.Tensor:
        """Return integers from 0 to 2 that differ between neighbouring ranks and positions.

        Their sum over up to 64 ranks is exact in bfloat16, which has all integers up to 256.
        """
        values = torch.arange(elements, dtype=torch.int32, device=self.context.device.torch_name)
        return values.add_(rank).remainder_(3).to(self.dtype)

    def summed(self, elements: int) -> torch.Tensor:
        """Return the sum of the patterns of all ranks."""
        total = self.pattern(0, elements)
        for rank in range(1, self.context.ranks):
            total += self.pattern(rank, elements)
        return total

    def prepare(self) -> None:
        """Allocate the input and the output."""
        self.whole = self.pattern(self.context.rank, self.elements)
        self.mine = self.pattern(self.context.rank, self.part)

    @property
    def checked_part(self) -> int:
        """Return the number of elements of a part that `answer` uses."""
        return min(int(self.part), MOST_CHECKED // self.context.ranks)

    @abc.abstractmethod
    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the operation on new input of `checked_part` elements per rank.

        Return the result and the expected result.
        """

    def check(self) -> str:
        seen, expected = self.answer()
        wrong = int((seen != expected).sum())
        return f"{wrong} of {seen.numel()} elements are wrong" if wrong else ""


@final
class AllReduce(AbstractCollective):
    """Sum in place. NCCL averages instead, so that values stay finite over many calls."""

    def prepare(self) -> None:
        super().prepare()
        self.op = dist.ReduceOp.AVG if self.context.device.backend == "nccl" else dist.ReduceOp.SUM
        self.others = [
            self.whole.clone() for _ in range(int(str(self.params.get("inflight", 1))) - 1)
        ]

    def work(self) -> Work:
        return Work(message_bytes=super().work().message_bytes * (1 + len(self.others)))

    def call(self) -> None:
        pending = [dist.all_reduce(other, op=self.op, async_op=True) for other in self.others]
        dist.all_reduce(self.whole, op=self.op)
        for work in pending:
            work.wait()

    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        size = self.checked_part * self.context.ranks
        seen = self.pattern(self.context.rank, size)
        dist.all_reduce(seen)
        return seen, self.summed(size)


@final
class AllGather(AbstractCollective):
    """The parts of all ranks, concatenated, on every rank."""

    def call(self) -> None:
        dist.all_gather_into_tensor(self.whole, self.mine)

    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [self.pattern(rank, self.checked_part) for rank in range(self.context.ranks)]
        expected = torch.cat(parts)
        seen = torch.empty_like(expected)
        dist.all_gather_into_tensor(seen, parts[self.context.rank])
        return seen, expected


@final
class ReduceScatter(AbstractCollective):
    """Sum over the ranks; each rank keeps its part. gloo: an all_to_all and a local sum."""

    def prepare(self) -> None:
        super().prepare()
        self.received = torch.empty_like(self.whole)

    def call(self) -> None:
        self._reduce_scatter(self.mine, self.whole, self.received)

    def _reduce_scatter(
        self, mine: torch.Tensor, whole: torch.Tensor, received: torch.Tensor
    ) -> None:
        if self.context.device.backend == "gloo":
            dist.all_to_all_single(received, whole)
            torch.sum(received.view(self.context.ranks, -1), dim=0, out=mine)
        else:
            dist.reduce_scatter_tensor(mine, whole)

    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        size = self.checked_part * self.context.ranks
        whole = self.pattern(self.context.rank, size)
        seen = torch.empty_like(whole[: self.checked_part])
        self._reduce_scatter(seen, whole, torch.empty_like(whole))
        return seen, self.summed(size).view(self.context.ranks, -1)[self.context.rank]


@final
class AllToAll(AbstractCollective):
    """Part i of every rank goes to rank i."""

    def prepare(self) -> None:
        super().prepare()
        self.received = torch.empty_like(self.whole)

    def call(self) -> None:
        dist.all_to_all_single(self.received, self.whole)

    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        size = self.checked_part * self.context.ranks
        sent = [
            self.pattern(rank, size).view(self.context.ranks, -1)
            for rank in range(self.context.ranks)
        ]
        expected = torch.cat([parts[self.context.rank] for parts in sent])
        seen = torch.empty_like(expected)
        dist.all_to_all_single(seen, sent[self.context.rank].flatten())
        return seen, expected


@final
class Broadcast(AbstractCollective):
    """One rank sends to all. The root rotates, so that each call waits for the one before it."""

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.calls_multiple = context.ranks
        self._turn = 0

    def call(self) -> None:
        dist.broadcast(self.whole, src=self._turn % self.context.ranks)
        self._turn += 1

    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        root, size = self.context.ranks - 1, self.checked_part * self.context.ranks
        seen = self.pattern(self.context.rank, size)
        dist.broadcast(seen, src=root)
        return seen, self.pattern(root, size)


@final
class SendRecv(AbstractCollective):
    """Pairs of ranks (0 and 1, 2 and 3, ...): even sends to odd, then odd to even.

    The last of an odd number of ranks has no partner and does nothing.
    """

    calls_multiple = 2

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self._turn = 0

    def call(self) -> None:
        even_sends = self._turn % 2 == 0
        self._turn += 1
        self._exchange(self.whole, even_sends=even_sends)

    def _exchange(self, array: torch.Tensor, *, even_sends: bool) -> None:
        partner = self.context.rank ^ 1
        if partner >= self.context.ranks:
            return
        if (self.context.rank % 2 == 0) == even_sends:
            dist.send(array, dst=partner)
        else:
            dist.recv(array, src=partner)

    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        size = self.checked_part * self.context.ranks
        seen = self.pattern(self.context.rank, size)
        self._exchange(seen, even_sends=True)
        partner = self.context.rank ^ 1
        is_receiver = self.context.rank % 2 == 1 and partner < self.context.ranks
        return seen, self.pattern(partner if is_receiver else self.context.rank, size)
