"""Memory patterns and matrix products compiled by XLA, whose speed a JAX trainer gets.

C[M,N] = A[M,K] B[K,N]; K is the reduction. The layouts nn, nt and tn are how A and B are stored, as
in `gemm.py`. The bytes of a pattern are counted as in STREAM: those of each array read or written.

params of jax.gemm: m, n, k, layout, dtype, cache (cold | hot)
params of jax.memory.*: bytes (of each array), dtype
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np

from mi300bench.errors import PlanError
from mi300bench.physics import gemm_flop
from mi300bench.schema.doubt import Doubt, FootprintInCache
from mi300bench.schema.probe import AbstractProbe, RankContext
from mi300bench.schema.record import Scalar, Work

PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "nn": lambda a, b: jnp.einsum("mk,kn->mn", a, b),
    "nt": lambda a, b: jnp.einsum("mk,nk->mn", a, b),
    "tn": lambda a, b: jnp.einsum("km,kn->mn", a, b),
}
CHECKED_ROWS = 8


@final
class JaxGemm(AbstractProbe):
    """One product. Each call allocates a new result, as JAX does."""

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.m, self.n, self.k = (int(str(params[name])) for name in ("m", "n", "k"))
        self.layout, self.dtype = str(params["layout"]), jnp.dtype(str(params["dtype"]))
        self.cold = params.get("cache", "cold") == "cold"
        if self.layout not in PRODUCTS:
            raise PlanError(
                f"unknown layout {self.layout!r}", hint=f"choose one of {', '.join(PRODUCTS)}"
            )

    def prepare(self) -> None:
        draw = np.random.default_rng(1)
        a = (self.k, self.m) if self.layout == "tn" else (self.m, self.k)
        b = (self.n, self.k) if self.layout == "nt" else (self.k, self.n)
        self.a, self.b = (
            jnp.asarray(draw.standard_normal(shape, np.float32), self.dtype) for shape in (a, b)
        )
        self.run = jax.jit(PRODUCTS[self.layout])

    def call(self) -> None:
        self.context.device.pending = self.run(self.a, self.b)

    def work(self) -> Work:
        size = self.dtype.itemsize
        return Work(
            bytes_read=(self.m + self.n) * self.k * size,
            bytes_written=self.m * self.n * size,
            flop=gemm_flop(self.m, self.n, self.k),
        )

    def check(self) -> str:
        seen = np.asarray(self.context.device.pending, np.float64)
        a, b = (np.asarray(x, np.float64) for x in (self.a, self.b))
        a, b = (a.T if self.layout == "tn" else a), (b.T if self.layout == "nt" else b)
        rows = np.linspace(0, self.m - 1, min(self.m, CHECKED_ROWS)).astype(int)
        error = float(np.abs(seen[rows] - a[rows] @ b).max())
        limit = 8 * self.k**0.5 * max(float(jnp.finfo(self.dtype).eps), 1.2e-7 * self.k**0.5)
        return "" if error <= limit else f"an element is off by {error:.3g}, more than {limit:.3g}"


class AbstractJaxPattern(AbstractProbe):
    """One jitted element-wise pattern over arrays of `bytes` bytes each."""

    cold = True
    arrays_read: ClassVar[int]
    pattern: ClassVar[Callable[..., Any]]

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.dtype = jnp.dtype(str(params["dtype"]))
        self.elements = int(str(params["bytes"])) // self.dtype.itemsize
        if self.elements < 1:
            raise PlanError(
                f"{params['bytes']} bytes are less than one element of {params['dtype']}",
                hint=f"use --sizes of at least {self.dtype.itemsize}",
            )

    def prepare(self) -> None:
        # Small integers, which are exact in every dtype.
        values = np.arange(self.elements, dtype=np.int32) % 3
        self.inputs = tuple(
            jnp.asarray(values + place, self.dtype) for place in range(self.arrays_read)
        )
        self.run = jax.jit(type(self).pattern)

    def call(self) -> None:
        self.context.device.pending = self.run(*self.inputs)

    def work(self) -> Work:
        size = float(self.elements * self.dtype.itemsize)
        return Work(bytes_read=self.arrays_read * size, bytes_written=size)

    def check(self) -> str:
        seen = np.asarray(self.context.device.pending, np.float32)
        expected = type(self).pattern(*(np.asarray(x, np.float32) for x in self.inputs))
        wrong = int((seen != expected).sum())
        return "" if wrong == 0 else f"{wrong} of {self.elements} elements are wrong"

    def doubts(self) -> tuple[Doubt, ...]:
        footprint = (self.arrays_read + 1) * self.elements * self.dtype.itemsize
        cache = self.context.device.cache_bytes
        if cache and footprint < 2 * cache:
            return (FootprintInCache(footprint_bytes=footprint, cache_bytes=cache),)
        return ()


@final
class JaxScale(AbstractJaxPattern):
    """Read one array, write its multiple."""

    arrays_read = 1
    pattern = staticmethod(lambda a: a * 2)


@final
class JaxAdd(AbstractJaxPattern):
    """Read two arrays, write their sum."""

    arrays_read = 2
    pattern = staticmethod(lambda a, b: a + b)


@final
class JaxTriad(AbstractJaxPattern):
    """Read two arrays, write one plus a multiple of the other."""

    arrays_read = 2
    pattern = staticmethod(lambda a, b: a + b * 2)
