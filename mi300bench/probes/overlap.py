"""A collective beside matrix products: how much each slows the other.

One call has three parts, one after the other: the products alone, the all-reduce alone, and both at once.
The number of products is chosen so that alone they take about 0.4 of the all-reduce, so the all-reduce
covers them whole even where they slow to less than half. The marks between the parts are the series; the fit
turns them into slow-down factors.

params: bytes (of the all-reduce), m, n, k, dtype (of the products), inflight (how many all-reduces at once, 1)
"""

from collections.abc import Mapping
from typing import Any, final

import torch
import torch.distributed as dist

from mi300bench.physics import gemm_flop
from mi300bench.schema.probe import AbstractProbe, RankContext
from mi300bench.schema.record import Scalar, Series, Work

# Products alone over all-reduce alone: long enough to see, short enough to be covered when slowed.
COVER = 0.4
PARTS = ("compute_alone_s", "collective_alone_s", "compute_beside_s", "both_s")


@final
class Overlap(AbstractProbe):
    """Products, an all-reduce, and the two together."""

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.m, self.n, self.k = (int(str(params[name])) for name in ("m", "n", "k"))
        self.dtype = getattr(torch, str(params["dtype"]))
        self.elements = max(1, int(str(params["bytes"])) // 4)
        self.inflight = int(str(params.get("inflight", 1)))
        self.products = 1
        self._marks: list[tuple[Any, ...]] = []

    def prepare(self) -> None:
        torch.manual_seed(1)
        where = self.context.device.torch_name
        self.a = torch.randn(self.m, self.k, device=where).to(self.dtype)
        self.b = torch.randn(self.k, self.n, device=where).to(self.dtype)
        self.c = torch.empty(self.m, self.n, dtype=self.dtype, device=where)
        self.messages = [torch.zeros(self.elements, device=where) for _ in range(self.inflight)]
        self.signal = torch.zeros(1, device=where)
        device = self.context.device
        for _ in range(2):
            product_s = device.seconds(self._multiply, 3)
            collective_s = device.seconds(lambda: self._wait(self._start()), 2)
        chosen = torch.tensor([max(1, round(COVER * collective_s / product_s))], device=where)
        dist.broadcast(chosen, src=0)
        self.products = int(chosen)

    def _start(self) -> list[Any]:
        return [dist.all_reduce(message, async_op=True) for message in self.messages]

    def _wait(self, pending: list[Any]) -> None:
        for each in pending:
            each.wait()

    def _multiply(self) -> None:
        torch.mm(self.a, self.b, out=self.c)

    def call(self) -> None:
        mark = self.context.device.mark
        dist.all_reduce(self.signal)
        marks = [mark()]
        for _ in range(self.products):
            self._multiply()
        marks.append(mark())
        dist.all_reduce(self.signal)
        marks.append(mark())
        self._wait(self._start())
        marks.append(mark())
        dist.all_reduce(self.signal)
        marks.append(mark())
        pending = self._start()
        for _ in range(self.products):
            self._multiply()
        marks.append(mark())
        self._wait(pending)
        marks.append(mark())
        self._marks.append(tuple(marks))

    def work(self) -> Work:
        return Work(
            flop=2 * self.products * gemm_flop(self.m, self.n, self.k),
            message_bytes=2.0 * self.elements * 4 * self.inflight,
        )

    def check(self) -> str:
        message = torch.ones(16, device=self.signal.device)
        pending = dist.all_reduce(message, async_op=True)
        self._multiply()
        assert pending is not None
        pending.wait()
        return (
            ""
            if bool((message == self.context.ranks).all())
            else "the all-reduce beside a product is wrong"
        )

    def series(self, samples: int) -> Series:
        between = self.context.device.between
        parts = [
            (between(m[0], m[1]), between(m[2], m[3]), between(m[4], m[5]), between(m[4], m[6]))
            for m in self._marks[-samples:]
        ]
        mine = torch.tensor(parts, dtype=torch.float64)
        if self.context.device.backend == "nccl":
            mine = mine.to(torch.float32).to(self.signal.device)
        dist.all_reduce(mine, op=dist.ReduceOp.MAX)
        columns = {name: tuple(float(v) for v in mine[:, i]) for i, name in enumerate(PARTS)}
        return columns | {"products": (self.products,)}
