"""Matrix products: C[M,N] = A[M,K] B[K,N], K the reduction, 2MNK FLOP.

layout names how A and B lie in memory, as BLAS does: nn (both as written), nt (B stored [N,K], a linear
layer's forward), tn (A stored [K,M], its weight gradient).

params: m, n, k, layout, dtype, cache (cold | hot), inputs (normal | zeros | integers)
"""

from collections.abc import Mapping
from typing import final

import torch

from mi300bench.errors import PlanError
from mi300bench.physics import gemm_flop
from mi300bench.schema.probe import AbstractProbe, Seat
from mi300bench.schema.record import Scalar, Work

LAYOUTS = ("nn", "nt", "tn")
INPUTS = ("normal", "zeros", "integers")
CHECKED_ROWS = 8


@final
class Gemm(AbstractProbe):
    """One product, result written into a tensor that exists."""

    def __init__(self, params: Mapping[str, Scalar], seat: Seat) -> None:
        super().__init__(params, seat)
        self.m, self.n, self.k = (int(str(params[name])) for name in ("m", "n", "k"))
        self.layout = str(params["layout"])
        self.inputs = str(params.get("inputs", "normal"))
        self.dtype = getattr(torch, str(params["dtype"]))
        self.cold = params.get("cache", "cold") == "cold"
        for value, known in ((self.layout, LAYOUTS), (self.inputs, INPUTS)):
            if value not in known:
                raise PlanError(f"{value!r} is not known to gemm", hint=f"one of {', '.join(known)}")

    def _matrix(self, rows: int, columns: int) -> torch.Tensor:
        if self.inputs == "zeros":
            values = torch.zeros(rows, columns)
        elif self.inputs == "integers":
            values = torch.randint(-3, 4, (rows, columns)).float()
        else:
            values = torch.randn(rows, columns)
        return values.to(device=self.seat.device.torch_name, dtype=self.dtype)

    def prepare(self) -> None:
        torch.manual_seed(1)
        self.a = self._matrix(self.k, self.m).T if self.layout == "tn" else self._matrix(self.m, self.k)
        self.b = self._matrix(self.n, self.k).T if self.layout == "nt" else self._matrix(self.k, self.n)
        self.c = torch.empty(self.m, self.n, dtype=self.dtype, device=self.a.device)

    def call(self) -> None:
        torch.mm(self.a, self.b, out=self.c)

    def work(self) -> Work:
        size = self.dtype.itemsize
        return Work(
            bytes_read=(self.m + self.n) * self.k * size,
            bytes_written=self.m * self.n * size,
            flop=gemm_flop(self.m, self.n, self.k),
        )

    def check(self) -> str:
        rows = torch.linspace(0, self.m - 1, min(self.m, CHECKED_ROWS)).long()
        columns = torch.linspace(0, self.n - 1, min(self.n, CHECKED_ROWS)).long()
        expected = self.a[rows].double() @ self.b[:, columns].double()
        seen = self.c[rows][:, columns].double()
        error = float((seen - expected).abs().max())
        # Rounding of the result, and of a reduction kept in float32, on sums that grow with sqrt(K).
        limit = 8 * self.k**0.5 * max(torch.finfo(self.dtype).eps, 1.2e-7 * self.k**0.5) + 1e-30
        return "" if error <= limit else f"an element is off by {error:.3g}, more than {limit:.3g}"
