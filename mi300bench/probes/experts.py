"""Products of rows with the matrices of their experts, computed in one of three ways.

grouped  one product over all experts, with rows sorted by expert (torch's grouped kernel)
padded   one batched product, with each expert's rows padded to those of the fullest expert
loop     one product per expert

The useful FLOP are 2 M N K for M rows, whether or not padding is computed too. K is the reduction.

params: m (rows of all experts), n, k, experts, way, dtype, and
        skew (rows of the fullest expert over an even share, at least 1)
"""

from collections.abc import Mapping
from typing import final

import torch
import torch.nn.functional as F

from mi300bench.errors import PlanError
from mi300bench.physics import gemm_flop
from mi300bench.schema.probe import AbstractProbe, RankContext
from mi300bench.schema.record import Scalar, Work

WAYS = ("grouped", "padded", "loop")


def group_rows(rows: int, experts: int, skew: float) -> list[int]:
    """Return the rows of each expert: the first has `skew` times an even share."""
    if experts == 1:
        return [rows]
    first = min(rows, max(round(rows / experts * skew), -(-rows // experts)))
    rest, others = rows - first, experts - 1
    return [first, *(rest // others + (index < rest % others) for index in range(others))]


@final
class ExpertsProbe(AbstractProbe):
    """The product of every row with the matrix of its expert."""

    cold = True

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.m, self.n, self.k, self.experts = (
            int(str(params[name])) for name in ("m", "n", "k", "experts")
        )
        self.way, self.skew = str(params["way"]), float(str(params.get("skew", 1.0)))
        self.dtype = getattr(torch, str(params["dtype"]))
        if self.way not in WAYS:
            raise PlanError(f"unknown way {self.way!r}", hint=f"choose one of {', '.join(WAYS)}")
        if self.skew < 1 or self.experts < 1:
            raise PlanError(
                f"skew={self.skew:g}, experts={self.experts}: both must be at least 1",
                hint="give skew=1 for equal numbers of rows",
            )

    def prepare(self) -> None:
        torch.manual_seed(1)
        device = self.context.device.torch_name
        self.rows = group_rows(self.m, self.experts, self.skew)
        self.a = torch.randn(self.m, self.k).to(device=device, dtype=self.dtype)
        self.b = torch.randn(self.experts, self.k, self.n).to(device=device, dtype=self.dtype)
        self.ends = torch.tensor(self.rows, device=device).cumsum(0).to(torch.int32)
        self.padded = torch.zeros(
            self.experts, max(self.rows), self.k, device=device, dtype=self.dtype
        )
        for index, part in enumerate(self.a.split(self.rows)):
            self.padded[index, : len(part)] = part
        self.c = torch.empty(0)

    def call(self) -> None:
        if self.way == "grouped":
            self.c = F.grouped_mm(self.a, self.b, offs=self.ends)
        elif self.way == "padded":
            self.c = torch.bmm(self.padded, self.b)
        else:
            self.c = torch.cat(
                [
                    part @ matrix
                    for part, matrix in zip(self.a.split(self.rows), self.b.unbind(0), strict=True)
                ]
            )

    def work(self) -> Work:
        size = self.dtype.itemsize
        used = sum(rows > 0 for rows in group_rows(self.m, self.experts, self.skew))
        return Work(
            bytes_read=(self.m * self.k + used * self.k * self.n) * size,
            bytes_written=self.m * self.n * size,
            flop=gemm_flop(self.m, self.n, self.k),
        )

    def check(self) -> str:
        start, worst = 0, 0.0
        for index, rows in enumerate(self.rows):
            if rows:
                seen = self.c[index, rows - 1] if self.way == "padded" else self.c[start + rows - 1]
                expected = self.a[start + rows - 1].double() @ self.b[index].double()
                worst = max(worst, float((seen.double() - expected).abs().max()))
            start += rows
        limit = 8 * self.k**0.5 * max(torch.finfo(self.dtype).eps, 1.2e-7 * self.k**0.5)
        return "" if worst <= limit else f"an element is off by {worst:.3g}, more than {limit:.3g}"
