"""Matrix products: C[M,N] = A[M,K] B[K,N] with 2MNK FLOP; K is the reduction.

A cold product finds its operands outside the last-level cache: on a CPU sets of operands take turns
(`rotation.py`), on a GPU, and for very small products, the cache is flushed before each call.

layout is how A and B are stored, as in BLAS: nn (both as written), nt (B stored as [N,K], the
forward pass of a linear layer), tn (A stored as [K,M], the gradient of its weight).

float8_e4m3 is the type that the device has (fnuz on gfx942, else OCP). Its scale is 1, its result
is bfloat16, and its kernels only take layout nt. On a CPU, torch computes it in software.

params: m, n, k, layout, dtype, cache (cold | hot), inputs (normal | zeros | integers)
"""

import itertools
from collections.abc import Mapping
from typing import final

import torch

from mi300bench.errors import PlanError
from mi300bench.physics import gemm_flop
from mi300bench.probes import rotation
from mi300bench.schema.probe import AbstractProbe, RankContext
from mi300bench.schema.record import Scalar, Work

LAYOUTS = ("nn", "nt", "tn")
INPUTS = ("normal", "zeros", "integers")
CHECKED_ROWS = 8
FP8 = "float8_e4m3"


@final
class GemmProbe(AbstractProbe):
    """One product, written into an allocated tensor."""

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.m, self.n, self.k = (int(str(params[name])) for name in ("m", "n", "k"))
        self.layout = str(params["layout"])
        self.inputs = str(params.get("inputs", "normal"))
        self.is_fp8 = params["dtype"] == FP8
        self.dtype = getattr(torch, context.device.fp8 if self.is_fp8 else str(params["dtype"]))
        self.cold = params.get("cache", "cold") == "cold"
        for name, value, known in (
            ("layout", self.layout, LAYOUTS),
            ("inputs", self.inputs, INPUTS),
        ):
            if value not in known:
                raise PlanError(
                    f"unknown {name} {value!r}", hint=f"choose one of {', '.join(known)}"
                )
        if self.is_fp8 and self.layout != "nt":
            raise PlanError(f"{FP8} has no product of layout {self.layout}", hint="use --layout nt")

    def _drawn(self, elements: int) -> torch.Tensor:
        """Return values for the operands."""
        torch.manual_seed(1)
        if self.inputs == "zeros":
            values = torch.zeros(elements)
        elif self.inputs == "integers":
            values = torch.randint(-3, 4, (elements,)).float()
        else:
            values = torch.randn(elements)
        return values.to(device=self.context.device.torch_name, dtype=self.dtype)

    def _operands(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return A [M,K] and B [K,N] in the layout, over the given elements."""
        m, n, k = self.m, self.n, self.k
        return (
            a.view(k, m).T if self.layout == "tn" else a.view(m, k),
            b.view(n, k).T if self.layout == "nt" else b.view(k, n),
        )

    def prepare(self) -> None:
        m, n, k, device = self.m, self.n, self.k, self.context.device
        self.one = torch.ones((), device=device.torch_name)
        size = self.dtype.itemsize
        turns = 1
        if self.cold and not self.is_fp8:
            turns = rotation.turns_of(device, (m * k + k * n + m * n) * size)
        if turns == 1:
            values = self._drawn(m * k + k * n)
            c_type = torch.bfloat16 if self.is_fp8 else self.dtype
            self.c = torch.empty(m, n, dtype=c_type, device=values.device)
            self.a, self.b = self._operands(values[: m * k], values[m * k :])
            self._next = itertools.repeat((self.a, self.b, self.c)).__next__
            return
        self.cold = False
        self._next = itertools.cycle(self._sets(turns)).__next__

    def _sets(self, turns: int) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Return A, B and C of each turn."""
        m, n, k = self.m, self.n, self.k
        a_step, b_step, c_step = (
            rotation.aligned(elements, self.dtype) for elements in (m * k, k * n, m * n)
        )
        whole = a_step + b_step
        inputs = rotation.memory(
            "inputs", turns * whole, self.dtype, filled=self.inputs, draw=self._drawn
        )
        results = rotation.memory(
            "results", turns * c_step, self.dtype, filled="results", draw=self._drawn
        )
        rows = []
        for turn in range(turns):
            start = turn * whole
            a = inputs[start : start + m * k]
            b = inputs[start + a_step : start + a_step + k * n]
            c = results[turn * c_step : turn * c_step + m * n].view(m, n)
            rows.append((*self._operands(a, b), c))
        return rows

    def call(self) -> None:
        self.a, self.b, self.c = self._next()
        if self.is_fp8:
            self.c = torch._scaled_mm(
                self.a, self.b, scale_a=self.one, scale_b=self.one, out_dtype=torch.bfloat16
            )
        else:
            torch.mm(self.a, self.b, out=self.c)

    def work(self) -> Work:
        size = self.dtype.itemsize
        return Work(
            bytes_read=(self.m + self.n) * self.k * size,
            bytes_written=self.m * self.n * self.c_bytes(),
            flop=gemm_flop(self.m, self.n, self.k),
        )

    def c_bytes(self) -> int:
        """Return the bytes of one element of the result."""
        return 2 if self.is_fp8 else self.dtype.itemsize

    def check(self) -> str:
        rows = torch.linspace(0, self.m - 1, min(self.m, CHECKED_ROWS)).long()
        columns = torch.linspace(0, self.n - 1, min(self.n, CHECKED_ROWS)).long()
        # Tensors of an 8-bit type cannot be indexed.
        left, right = (x.float() if self.is_fp8 else x for x in (self.a, self.b))
        expected = left[rows].double() @ right[:, columns].double()
        seen = self.c[rows][:, columns].double()
        error = float((seen - expected).abs().max())
        # The rounding error of the result and of a float32 reduction; sums grow with sqrt(K).
        limit = 8 * self.k**0.5 * max(torch.finfo(self.c.dtype).eps, 1.2e-7 * self.k**0.5) + 1e-30
        return "" if error <= limit else f"an element is off by {error:.3g}, more than {limit:.3g}"
