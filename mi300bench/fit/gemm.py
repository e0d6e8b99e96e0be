"""The time of a matrix product of any shape, layout and data type in the measured range.

Physics gives the trend: the product's FLOP over the best rate seen, plus its bytes over the best
bandwidth seen, plus a launch. The device's own effects (tiles, vectors, caches) are the ratio to
that trend. The ratio is assumed smooth in the logarithms of M, N and K and in the alignment of
each, and a Gaussian process fits it. K is the reduction.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mi300bench import stats
from mi300bench.errors import RecordError
from mi300bench.fit.gaussian import GaussianProcess, fit_process
from mi300bench.physics import gemm_flop
from mi300bench.schema.doubt import Doubt, OutOfRange
from mi300bench.schema.model import Gemm, Interval, Prediction
from mi300bench.schema.record import Measurement
from mi300bench.units import ELEMENT_BYTES

Array = NDArray[np.float64]
LAYOUTS = ("nn", "nt", "tn")
FEWEST_SHAPES = 12
FOLDS = 5
# Half-width of a 95 % interval in standard deviations; outside the measured range it is this many
# times wider.
WIDTH, BEYOND_RANGE = 1.96, 3.0
# Alignment beyond this power of two makes no difference to a kernel.
MOST_ALIGNED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One product, C[M,N] = A[M,K] B[K,N]."""

    m: int
    n: int
    k: int
    layout: str = "nt"

    @property
    def flop(self) -> float:
        """Return 2 M N K."""
        return gemm_flop(self.m, self.n, self.k)

    def bytes(self, element: int) -> float:
        """Return the bytes of A, B and C, each counted once, with `element` bytes per element."""
        return float(element * (self.m * self.k + self.k * self.n + self.m * self.n))


def alignment(size: int) -> int:
    """Return the exponent of the largest power of two that divides `size`, at most 7."""
    return min(MOST_ALIGNED, (size & -size).bit_length() - 1)


def _features(products: Sequence[Product]) -> Array:
    rows = [
        [
            math.log2(p.m),
            math.log2(p.n),
            math.log2(p.k),
            *map(alignment, (p.m, p.n, p.k)),
            *(p.layout == x for x in LAYOUTS[1:]),
        ]
        for p in products
    ]
    return np.array(rows, dtype=float)


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmModel:
    """Fitted products of one data type.

    `errors` are the relative errors on held-out shapes; `nearest_errors` are those of a simpler
    model, which takes the rate of the nearest measured shape.
    """

    dtype: str
    element_bytes: int
    peak: float  # best FLOP per second seen
    bandwidth: float  # best bytes per second seen, with A, B and C counted once each
    launch_s: float  # half of the shortest time seen
    process: GaussianProcess
    ranges: Mapping[str, tuple[int, int]]
    errors: tuple[float, ...]
    evidence: tuple[str, ...]
    nearest_errors: tuple[float, ...] = field(default=())

    def _trend(self, products: Sequence[Product]) -> Array:
        return np.array(
            [
                _trend(p, self.element_bytes, self.peak, self.bandwidth, self.launch_s)
                for p in products
            ]
        )

    def seconds(self, products: Sequence[Product]) -> Array:
        """Return the predicted seconds of each product."""
        mean, _ = self.process.predict(_features(products))
        seconds: Array = self._trend(products) * np.exp(mean)
        return seconds

    def predict(self, product: Product) -> Prediction:
        """Return the seconds of one product with a 95 % interval.

        Outside the measured range the interval is wider and the prediction carries a doubt.
        """
        mean, deviation = self.process.predict(_features([product]))
        width = WIDTH * math.hypot(float(deviation[0]), self.process.noise)
        doubts: list[Doubt] = []
        for name, size in (("M", product.m), ("N", product.n), ("K", product.k)):
            low, high = self.ranges[name]
            if not low <= size <= high:
                doubts.append(
                    OutOfRange(
                        what=f"{name} of a {self.dtype} product", asked=size, low=low, high=high
                    )
                )
        if doubts:
            width *= BEYOND_RANGE
        mid = float(self._trend([product])[0] * math.exp(float(mean[0])))
        interval = Interval(low=mid * math.exp(-width), mid=mid, high=mid * math.exp(width))
        return Prediction(value=interval, evidence=self.evidence, doubts=tuple(doubts))


def _trend(product: Product, element: int, peak: float, bandwidth: float, launch_s: float) -> float:
    return launch_s + product.flop / peak + product.bytes(element) / bandwidth


def product_of(record: Measurement) -> Product:
    """Return the product that a `gemm` record measured."""
    p = record.params
    return Product(
        m=int(str(p["m"])), n=int(str(p["n"])), k=int(str(p["k"])), layout=str(p["layout"])
    )


def _nearest(products: Sequence[Product], rates: Array, query: Product) -> float:
    """Return the rate of the shape nearest in the logs of M, N, K; the same layout breaks ties."""
    at = np.log2([query.m, query.n, query.k])
    distances = [
        float(((np.log2([p.m, p.n, p.k]) - at) ** 2).sum())
        + (0.0 if p.layout == query.layout else 1e-6)
        for p in products
    ]
    return float(rates[int(np.argmin(distances))])


def _held_out(
    products: Sequence[Product], trend: Array, logs: Array, seconds: Array
) -> tuple[list[float], list[float]]:
    """Return the relative errors on held-out shapes: of the process, then of the nearest shape."""
    shapes = list(dict.fromkeys((p.m, p.n, p.k) for p in products))
    order = np.random.default_rng(0).permutation(len(shapes))
    fold_of = {shapes[index]: place % FOLDS for place, index in enumerate(order)}
    folds = np.array([fold_of[p.m, p.n, p.k] for p in products])
    features = _features(products)
    rates = np.array([p.flop for p in products]) / seconds
    ours, nearest = [], []
    for fold in range(FOLDS):
        kept, out = np.flatnonzero(folds != fold).tolist(), np.flatnonzero(folds == fold).tolist()
        mean, _ = fit_process(features[kept], logs[kept]).predict(features[out])
        ours += [float(e) for e in np.abs(trend[out] * np.exp(mean) / seconds[out] - 1)]
        rest = [products[index] for index in kept]
        nearest += [
            abs(products[i].flop / _nearest(rest, rates[kept], products[i]) / seconds[i] - 1)
            for i in out
        ]
    return ours, nearest


def fit_gemm(groups: Sequence[Sequence[Measurement]], *, held_out: bool = True) -> GemmModel:
    """Return the model of the products of one data type, each given as its passes.

    Raises `RecordError` where there are too few shapes, or more than one data type.
    """
    products = [product_of(passes[0]) for passes in groups]
    shapes = {(p.m, p.n, p.k) for p in products}
    if len(shapes) < FEWEST_SHAPES:
        raise RecordError(
            f"the fit of matrix products needs at least {FEWEST_SHAPES} shapes, "
            f"the store has {len(shapes)}",
            hint="measure more shapes: mi300bench gemm-sweep --budget 2m",
        )
    kinds = {str(passes[0].params["dtype"]) for passes in groups}
    if len(kinds) > 1:
        raise RecordError(
            f"one fit takes products of one data type, got {' and '.join(sorted(kinds))}",
            hint="fit each data type by itself",
        )
    dtype = kinds.pop()
    element = ELEMENT_BYTES[dtype]
    seconds = np.array([stats.interval_of(passes).mid for passes in groups])
    peak = float(max(p.flop / s for p, s in zip(products, seconds, strict=True)))
    bandwidth = float(max(p.bytes(element) / s for p, s in zip(products, seconds, strict=True)))
    launch_s = float(seconds.min()) / 2
    trend = np.array([_trend(p, element, peak, bandwidth, launch_s) for p in products])
    logs = np.log(seconds / trend)
    ours, nearest = _held_out(products, trend, logs, seconds) if held_out else ([], [])
    sizes = {
        "M": [p.m for p in products],
        "N": [p.n for p in products],
        "K": [p.k for p in products],
    }
    return GemmModel(
        dtype=dtype,
        element_bytes=element,
        peak=peak,
        bandwidth=bandwidth,
        launch_s=launch_s,
        process=fit_process(_features(products), logs),
        ranges={name: (min(values), max(values)) for name, values in sizes.items()},
        errors=tuple(ours),
        nearest_errors=tuple(nearest),
        evidence=tuple(record.id for passes in groups for record in passes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """FLOP per second of all products of a model together, and of the best single one.

    `together` is all FLOP over all seconds: the FLOP-weighted harmonic mean of the rates.
    """

    together: float
    best: float


def products_of(gemms: Sequence[Gemm]) -> list[tuple[Product, int]]:
    """Return every product of a training step with how often it runs.

    The forward product is nt, that of the input gradient nn, that of the weight gradient tn.
    """
    products: list[tuple[Product, int]] = []
    for g in gemms:
        products.append((Product(m=g.m, n=g.n, k=g.k, layout="nt"), g.count))
        products.append((Product(m=g.m, n=g.k, k=g.n, layout="nn"), g.count))
        products.append((Product(m=g.n, n=g.k, k=g.m, layout="tn"), g.count))
    return products


def workload_score(groups: Sequence[Sequence[Measurement]], gemms: Sequence[Gemm]) -> Score | None:
    """Return the rate of a model's products together; None where one of them was not measured."""
    seconds = {product_of(passes[0]): stats.interval_of(passes).mid for passes in groups}
    products = products_of(gemms)
    if any(product not in seconds for product, _ in products):
        return None
    flop = sum(product.flop * count for product, count in products)
    return Score(
        together=flop / sum(seconds[product] * count for product, count in products),
        best=max(product.flop / seconds[product] for product, _ in products),
    )
