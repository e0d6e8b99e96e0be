"""An all-reduce beside matrix products: how much each slows the other.

One call has three parts: the products alone, the all-reduce alone, and both at once. Alone, the
products take about 0.4 of the time of the all-reduce, so that the all-reduce still outlasts them if
they run at less than half speed. The times of the parts are series of the record; `fit.overlap`
computes slow-down factors from them.

params: bytes (of the all-reduce), m, n, k, dtype (of the products),
        inflight (all-reduces at once, default 1)
"""

from collections.abc import Mapping
from typing import Any, final

import torch
import torch.distributed as dist

from mi300bench.physics import gemm_flop
from mi300bench.schema.probe import AbstractProbe, RankContext
from mi300bench.schema.record import Scalar, Series, Work

# Time of the products over that of the all-reduce: long enough to measure, short enough to be
# covered by the all-reduce even if slowed.
COVER = 0.4
PARTS = ("compute_alone_s", "collective_alone_s", "compute_beside_s", "both_s")


@final
class Overlap(AbstractProbe):
    """Products, an all-reduce, and both at once."""

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
        device = self.context.device
        name = device.torch_name
        self.a = torch.randn(self.m, self.k, device=name).to(self.dtype)
        self.b = torch.randn(self.k, self.n, device=name).to(self.dtype)
        self.c = torch.empty(self.m, self.n, dtype=self.dtype, device=name)
        self.messages = [torch.zeros(self.elements, device=name) for _ in range(self.inflight)]
        self.signal = torch.zeros(1, device=name)
        for _ in range(2):
            product_s = device.seconds(self._multiply, 3)
            collective_s = device.seconds(lambda: self._wait(self._start()), 2)
        products = torch.tensor([max(1, round(COVER * collective_s / product_s))], device=name)
        dist.broadcast(products, src=0)
        self.products = int(products)

    def _start(self) -> list[Any]:
        return [dist.all_reduce(message, async_op=True) for message in self.messages]

    def _wait(self, pending: list[Any]) -> None:
        for work in pending:
            work.wait()

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
        is_right = bool((message == self.context.ranks).all())
        return "" if is_right else "the all-reduce beside a product is wrong"

    def series(self, samples: int) -> Series:
        between = self.context.device.between
        parts = [
            (between(m[0], m[1]), between(m[2], m[3]), between(m[4], m[5]), between(m[4], m[6]))
            for m in self._marks[-samples:]
        ]
        times = torch.tensor(parts, dtype=torch.float64)
        if self.context.device.backend == "nccl":
            times = times.to(torch.float32).to(self.signal.device)
        dist.all_reduce(times, op=dist.ReduceOp.MAX)
        columns = {name: tuple(float(v) for v in times[:, i]) for i, name in enumerate(PARTS)}
        return columns | {"products": (self.products,)}
