"""Memory bandwidth by pattern and size.

Each pattern moves arrays of `bytes` bytes. Bytes are counted as in STREAM, without the reads that a
write-allocating cache adds. Each pattern has two variants: torch's operator, and the same code with
torch.compile. If they disagree, the slower kernel is not memory-bound.

params: bytes (of each array), dtype, variant (op | compiled); for gather and scatter also row_bytes
"""

import abc
from collections.abc import Callable, Mapping
from typing import Any, final

import torch

from mi300bench.errors import PlanError
from mi300bench.schema.doubt import Doubt, FootprintInCache
from mi300bench.schema.probe import AbstractProbe, RankContext
from mi300bench.schema.record import Scalar, Work

FACTOR = 3.0
VARIANTS = ("op", "compiled")


class AbstractStream(AbstractProbe):
    """A pattern over arrays of equal size."""

    reads = 0  # arrays read by one call
    writes = 0  # arrays written

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.dtype = getattr(torch, str(params["dtype"]))
        self.elements = int(str(params["bytes"])) // self.dtype.itemsize
        self.variant = str(params.get("variant", "op"))
        if self.variant not in VARIANTS:
            raise PlanError(
                f"unknown variant {self.variant!r}", hint=f"choose one of {', '.join(VARIANTS)}"
            )
        if self.elements < 1:
            raise PlanError(
                f"{params['bytes']} bytes are less than one element of {params['dtype']}",
                hint=f"use --sizes of at least {self.dtype.itemsize}",
            )
        self._call: Callable[[], object] = lambda: None

    @abc.abstractmethod
    def operation(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        """Allocate the arrays; return the function of one call and its arguments."""

    def array(self) -> torch.Tensor:
        """Return an array of normally distributed values on the device."""
        return torch.randn(
            self.elements, dtype=torch.float32, device=self.context.device.torch_name
        ).to(self.dtype)

    def prepare(self) -> None:
        torch.manual_seed(1)
        function, arguments = self.operation()
        if self.variant == "compiled":
            function = torch.compile(function, dynamic=False)
        self._call = lambda: function(*arguments)
        self._call()

    def call(self) -> None:
        self._call()

    @property
    def array_bytes(self) -> int:
        """Return the bytes of one array."""
        return int(self.elements * self.dtype.itemsize)

    def work(self) -> Work:
        return Work(
            bytes_read=self.reads * self.array_bytes, bytes_written=self.writes * self.array_bytes
        )

    def doubts(self) -> tuple[Doubt, ...]:
        footprint = (self.reads + self.writes) * self.array_bytes
        cache = self.context.device.cache_bytes
        if cache and footprint < 2 * cache:
            return (FootprintInCache(footprint_bytes=footprint, cache_bytes=cache),)
        return ()

    def sampled(self, *arrays: torch.Tensor) -> list[torch.Tensor]:
        """Return about 4096 evenly spaced elements of each array, on the host."""
        stride = max(1, self.elements // 4096)
        return [array[::stride].to(torch.float32).cpu() for array in arrays]


def _difference(seen: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, what: str) -> str:
    """Return why `seen` is not `expected`; empty if it is, within rounding."""
    error = float((seen - expected).abs().max())
    limit = 8 * torch.finfo(dtype).eps * max(1.0, float(expected.abs().max()))
    return "" if error <= limit else f"{what} is off by {error:.3g}, more than {limit:.3g}"


@final
class Read(AbstractStream):
    """total = sum(a)."""

    reads = 1

    def operation(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        self.a = self.array()
        self.total = torch.zeros((), dtype=self.dtype, device=self.a.device)

        def read(a: torch.Tensor, total: torch.Tensor) -> None:
            total.copy_(a.sum())

        return read, (self.a, self.total)

    def check(self) -> str:
        expected = float(self.a.double().sum())
        # The rounding error of a tree of sums grows with the logarithm of the number of elements
        # and with the size of the partial sums.
        eps = torch.finfo(self.dtype).eps
        limit = eps * 64 * self.elements**0.5 + eps * abs(expected)
        error = abs(float(self.total) - expected)
        return "" if error <= limit else f"the sum is off by {error:.3g}, more than {limit:.3g}"


@final
class Write(AbstractStream):
    """a = constant."""

    writes = 1

    def operation(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        self.a = self.array()

        def write(a: torch.Tensor) -> None:
            a.fill_(FACTOR)

        return write, (self.a,)

    def check(self) -> str:
        (a,) = self.sampled(self.a)
        return _difference(a, torch.full_like(a, FACTOR), self.dtype, "the constant")


@final
class Copy(AbstractStream):
    """b = a."""

    reads, writes = 1, 1

    def operation(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        self.a = self.array()
        self.b = torch.zeros_like(self.a)

        def copy(a: torch.Tensor, b: torch.Tensor) -> None:
            b.copy_(a)

        return copy, (self.a, self.b)

    def check(self) -> str:
        a, b = self.sampled(self.a, self.b)
        return _difference(b, a, self.dtype, "the copy")


@final
class Scale(AbstractStream):
    """b = factor a."""

    reads, writes = 1, 1

    def operation(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        self.a = self.array()
        self.b = torch.zeros_like(self.a)

        def scale(a: torch.Tensor, b: torch.Tensor) -> None:
            torch.mul(a, FACTOR, out=b)

        def scale_compiled(a: torch.Tensor, b: torch.Tensor) -> None:
            b.copy_(a * FACTOR)

        return (scale if self.variant == "op" else scale_compiled), (self.a, self.b)

    def check(self) -> str:
        a, b = self.sampled(self.a, self.b)
        return _difference(b, a * FACTOR, self.dtype, "the multiple")


@final
class Add(AbstractStream):
    """c = a + b."""

    reads, writes = 2, 1

    def operation(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        self.a, self.b = self.array(), self.array()
        self.c = torch.zeros_like(self.a)

        def add(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
            torch.add(a, b, out=c)

        def add_compiled(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
            c.copy_(a + b)

        return (add if self.variant == "op" else add_compiled), (self.a, self.b, self.c)

    def check(self) -> str:
        a, b, c = self.sampled(self.a, self.b, self.c)
        return _difference(c, a + b, self.dtype, "the sum")


@final
class Triad(AbstractStream):
    """c = a + factor b."""

    reads, writes = 2, 1

    def operation(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        self.a, self.b = self.array(), self.array()
        self.c = torch.zeros_like(self.a)

        def triad(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
            torch.add(a, b, alpha=FACTOR, out=c)

        def triad_compiled(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
            c.copy_(a + FACTOR * b)

        return (triad if self.variant == "op" else triad_compiled), (self.a, self.b, self.c)

    def check(self) -> str:
        a, b, c = self.sampled(self.a, self.b, self.c)
        return _difference(c, a + FACTOR * b, self.dtype, "the triad")


class AbstractRows(AbstractStream):
    """Rows of `row_bytes` in random order, as in an embedding, a router or a paged cache."""

    reads, writes = 1, 1

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.width = int(str(params["row_bytes"])) // self.dtype.itemsize
        if not 1 <= self.width <= self.elements:
            raise PlanError(
                f"arrays of {params['bytes']} bytes have no rows of {params['row_bytes']} bytes",
                hint=f"use --row-bytes from {self.dtype.itemsize} to the size of the array",
            )
        self.elements -= self.elements % self.width

    def rows(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the source, the target and a random order of rows."""
        source = self.array().view(-1, self.width)
        order = torch.randperm(source.shape[0], device=source.device)
        return source, torch.zeros_like(source), order

    def work(self) -> Work:
        index_bytes = self.elements // self.width * 8
        return Work(bytes_read=self.array_bytes + index_bytes, bytes_written=self.array_bytes)


@final
class Gather(AbstractRows):
    """b[i] = a[order[i]]."""

    def operation(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        self.a, self.b, self.order = self.rows()

        def gather(a: torch.Tensor, b: torch.Tensor, order: torch.Tensor) -> None:
            torch.index_select(a, 0, order, out=b)

        def gather_compiled(a: torch.Tensor, b: torch.Tensor, order: torch.Tensor) -> None:
            b.copy_(a[order])

        return (gather if self.variant == "op" else gather_compiled), (self.a, self.b, self.order)

    def check(self) -> str:
        stride = max(1, self.order.numel() // 256)
        is_right = torch.equal(self.b[::stride], self.a[self.order[::stride]])
        return "" if is_right else "a gathered row is wrong"


@final
class Scatter(AbstractRows):
    """b[order[i]] = a[i]."""

    def operation(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        self.a, self.b, self.order = self.rows()

        def scatter(a: torch.Tensor, b: torch.Tensor, order: torch.Tensor) -> None:
            b.index_copy_(0, order, a)

        def scatter_compiled(a: torch.Tensor, b: torch.Tensor, order: torch.Tensor) -> None:
            b[order] = a

        return (scatter if self.variant == "op" else scatter_compiled), (self.a, self.b, self.order)

    def check(self) -> str:
        stride = max(1, self.order.numel() // 256)
        is_right = torch.equal(self.b[self.order[::stride]], self.a[::stride])
        return "" if is_right else "a scattered row is wrong"
