"""Matrix products: C[M,N] = A[M,K] B[K,N], K the reduction, 2MNK FLOP.

layout names how A and B lie in memory, as BLAS does: nn (both as written), nt (B stored [N,K], a linear
layer's forward), tn (A stored [K,M], its weight gradient).

float8_e4m3 is the kind that the device has (gfx942: fnuz, elsewhere OCP), scaled by 1, with a bfloat16 result; its kernels take
the layout nt alone. On a CPU torch computes it in software.

params: m, n, k, layout, dtype, cache (cold | hot), inputs (normal | zeros | integers)
"""

from collections.abc import Mapping
from typing import final

import torch

from mi300bench.errors import PlanError
from mi300bench.physics import gemm_flop
from mi300bench.schema.probe import AbstractProbe, RankContext
from mi300bench.schema.record import Scalar, Work

LAYOUTS = ("nn", "nt", "tn")
INPUTS = ("normal", "zeros", "integers")
CHECKED_ROWS = 8
FP8 = "float8_e4m3"


@final
class GemmProbe(AbstractProbe):
    """One product, result written into a tensor that exists."""

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.m, self.n, self.k = (int(str(params[name])) for name in ("m", "n", "k"))
        self.layout = str(params["layout"])
        self.inputs = str(params.get("inputs", "normal"))
        self.is_fp8 = params["dtype"] == FP8
        self.dtype = getattr(torch, context.device.fp8 if self.is_fp8 else str(params["dtype"]))
        self.cold = params.get("cache", "cold") == "cold"
        for value, known in ((self.layout, LAYOUTS), (self.inputs, INPUTS)):
            if value not in known:
                raise PlanError(
                    f"{value!r} is not known to gemm", hint=f"one of {', '.join(known)}"
                )
        if self.is_fp8 and self.layout != "nt":
            raise PlanError(
                f"there is no {FP8} product of layout {self.layout}", hint="--layout nt"
            )

    def _matrix(self, rows: int, columns: int) -> torch.Tensor:
        if self.inputs == "zeros":
            values = torch.zeros(rows, columns)
        elif self.inputs == "integers":
            values = torch.randint(-3, 4, (rows, columns)).float()
        else:
            values = torch.randn(rows, columns)
        return values.to(device=self.context.device.torch_name, dtype=self.dtype)

    def prepare(self) -> None:
        torch.manual_seed(1)
        self.a = (
            self._matrix(self.k, self.m).T if self.layout == "tn" else self._matrix(self.m, self.k)
        )
        self.b = (
            self._matrix(self.n, self.k).T if self.layout == "nt" else self._matrix(self.k, self.n)
        )
        self.c = torch.empty(
            self.m,
            self.n,
            dtype=torch.bfloat16 if self.is_fp8 else self.dtype,
            device=self.a.device,
        )
        self.one = torch.ones((), device=self.a.device)

    def call(self) -> None:
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
        """Return the bytes of an element of the result."""
        return 2 if self.is_fp8 else self.dtype.itemsize

    def check(self) -> str:
        rows = torch.linspace(0, self.m - 1, min(self.m, CHECKED_ROWS)).long()
        columns = torch.linspace(0, self.n - 1, min(self.n, CHECKED_ROWS)).long()
        left, right = (
            x.float() if self.is_fp8 else x for x in (self.a, self.b)
        )  # fp8 cannot be indexed
        expected = left[rows].double() @ right[:, columns].double()
        seen = self.c[rows][:, columns].double()
        error = float((seen - expected).abs().max())
        # Rounding of the result, and of a reduction kept in float32, on sums that grow with sqrt(K).
        limit = 8 * self.k**0.5 * max(torch.finfo(self.c.dtype).eps, 1.2e-7 * self.k**0.5) + 1e-30
        return "" if error <= limit else f"an element is off by {error:.3g}, more than {limit:.3g}"
