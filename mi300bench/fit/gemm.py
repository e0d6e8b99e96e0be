"""The time of a matrix product of any shape, layout and type in the measured range.

Physics gives the trend: a product takes at least its FLOP over the best rate seen, its bytes over the best
bandwidth seen, and a launch. What a device makes of a shape (tiles, vectors, caches) is the ratio to that,
smooth in the logarithms of M, N and K and in how far each is aligned, and is fitted by a Gaussian process.
K is the reduction.
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

Array = NDArray[np.float64]
LAYOUTS = ("nn", "nt", "tn")
FEWEST_SHAPES = 12
FOLDS = 5
# Half-width of a 95 % interval in standard deviations; outside the range it is trusted this many times less.
WIDTH, BEYOND_RANGE = 1.96, 3.0
# Alignment counts up to this power of two.
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
        """Return the bytes of A, B and C, each once, at `element` bytes an element."""
        return float(element * (self.m * self.k + self.k * self.n + self.m * self.n))


def alignment(size: int) -> int:
    """Return the power of two that divides `size`, as an exponent up to `MOST_ALIGNED`."""
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
    """Fitted products of one type. `errors` are the relative residuals of shapes left out of the fit."""

    dtype: str
    element_bytes: int
    peak: float  # best FLOP per second seen
    bandwidth: float  # best bytes per second seen, of A, B and C once each
    launch_s: float  # shortest time seen
    process: GaussianProcess
    ranges: Mapping[str, tuple[int, int]]
    errors: tuple[float, ...]
    evidence: tuple[str, ...]
    nearest_errors: tuple[float, ...] = field(
        default=()
    )  # of taking the nearest measured shape's rate instead

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
        """Return the seconds of one product with a 95 % interval; outside the measured range it says so."""
        mean, deviation = self.process.predict(_features([product]))
        width = WIDTH * math.hypot(float(deviation[0]), self.process.noise)
        doubts: list[Doubt] = []
        for name, size in (("M", product.m), ("N", product.n), ("K", product.k)):
            low, high = self.ranges[name]
            if not low <= size <= high:
                doubts.append(
                    OutOfRange(
                        what=f"a {self.dtype} product's {name}", asked=size, low=low, high=high
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


def _nearest(products: Sequence[Product], rates: Array, asked: Product) -> float:
    """Return the rate of the measured shape that is nearest in the logarithms of M, N and K, same layout first."""
    at = np.log2([asked.m, asked.n, asked.k])
    distances = [
        float(((np.log2([p.m, p.n, p.k]) - at) ** 2).sum())
        + (0.0 if p.layout == asked.layout else 1e-6)
        for p in products
    ]
    return float(rates[int(np.argmin(distances))])


def _held_out(
    products: Sequence[Product], trend: Array, logs: Array, seconds: Array
) -> tuple[list[float], list[float]]:
    """Return relative residuals of shapes left out by folds, of the process and of the nearest neighbour."""
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
    """Return the model of products of one type, each given as its passes; `RecordError` for too few shapes."""
    from mi300bench.units import ELEMENT_BYTES

    products = [product_of(passes[0]) for passes in groups]
    shapes = {(p.m, p.n, p.k) for p in products}
    if len(shapes) < FEWEST_SHAPES:
        raise RecordError(
            f"a fit of products needs at least {FEWEST_SHAPES} shapes, the store has {len(shapes)}",
            hint="mi300bench gemm-sweep --sample 60",
        )
    kinds = {str(passes[0].params["dtype"]) for passes in groups}
    if len(kinds) > 1:
        raise RecordError(
            f"products of {' and '.join(sorted(kinds))} do not share a fit",
            hint="choose one with --dtype",
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
    """FLOP per second of a model's products together (their FLOP-weighted harmonic mean), and of the best one."""

    together: float
    best: float


def products_of(gemms: Sequence[Gemm]) -> list[tuple[Product, int]]:
    """Return every product of a step with how often it runs: forward nt, input gradient nn, weight gradient tn."""
    found: list[tuple[Product, int]] = []
    for g in gemms:
        found.append((Product(m=g.m, n=g.n, k=g.k, layout="nt"), g.count))
        found.append((Product(m=g.m, n=g.k, k=g.n, layout="nn"), g.count))
        found.append((Product(m=g.n, n=g.k, k=g.m, layout="tn"), g.count))
    return found


def workload_score(groups: Sequence[Sequence[Measurement]], gemms: Sequence[Gemm]) -> Score | None:
    """Return what a model's products reach together, from the records of each; None where one was not measured."""
    seconds = {product_of(passes[0]): stats.interval_of(passes).mid for passes in groups}
    products = products_of(gemms)
    if any(product not in seconds for product, _ in products):
        return None
    flop = sum(product.flop * count for product, count in products)
    return Score(
        together=flop / sum(seconds[product] * count for product, count in products),
        best=max(product.flop / seconds[product] for product, _ in products),
    )
