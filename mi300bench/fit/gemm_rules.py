"""A device's own rules of thumb for matrix products, from lines of shapes through its best shape.

least       the smallest size of one axis from which all larger measured sizes reach 95 % of the
            plateau, which is the rate of the best shape
flop        the cheapest measured shape that reaches 95 % of the plateau
alignment   the smallest power of two that a size must be a multiple of, to reach 95 % of the rate
            of a well aligned size close by
tile        the period of the steps in which the time of a product grows, where it grows in steps

Each rule names its records. Where the measured range cannot answer, the rule's sentence says so.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mi300bench import stats
from mi300bench.fit.gaussian import Array
from mi300bench.fit.gemm import GemmModel, Product, alignment, product_of
from mi300bench.schema.record import Measurement

ENOUGH = 0.95
AXES = ("m", "n", "k")
# Alignment: sizes just above a base that are multiples of exactly 1, 2, 4, ... 128.
ALIGNED_BASE, MOST_ALIGNED = 512, 128
# Tiles: sizes in steps of 8 above another base; the periods that are tried.
TILE_BASE, TILE_STEP, TILE_STEPS = 256, 8, 24
TILES = (16, 32, 64, 128)
# Steps count where they leave less than this share of the scatter that a straight line leaves.
WORTH_STEPS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule. `value` is in elements or FLOP, None where the data cannot tell."""

    name: str
    axis: str
    value: float | None
    sentence: str
    evidence: tuple[str, ...]


def _with(product: Product, axis: str, size: int) -> Product:
    sizes = {name: getattr(product, name) for name in AXES} | {axis: size}
    return Product(**sizes, layout=product.layout)


def least_line(best: Product, axis: str, sizes: Sequence[int]) -> list[Product]:
    """Return the shapes along one axis through `best`."""
    return [_with(best, axis, size) for size in sizes]


def alignment_line(best: Product, axis: str) -> list[Product]:
    """Return shapes close to each other, whose `axis` is a multiple of exactly 1, 2, 4, ... 128."""
    base = min(ALIGNED_BASE, getattr(best, axis))
    exact = [2**power for power in range(int(math.log2(MOST_ALIGNED)) + 1)]
    return [_with(best, axis, base + step if step < MOST_ALIGNED else base) for step in exact]


def tile_line(best: Product, axis: str) -> list[Product]:
    """Return shapes in small steps along `axis`."""
    return [_with(best, axis, TILE_BASE + TILE_STEP * step) for step in range(TILE_STEPS + 1)]


def _rates(groups: Sequence[Sequence[Measurement]]) -> dict[Product, tuple[float, tuple[str, ...]]]:
    return {
        product_of(passes[0]): (
            passes[0].work.flop / stats.interval_of(passes).mid,
            tuple(record.id for record in passes),
        )
        for passes in groups
    }


def _rates_on(
    line: Sequence[Product], groups: Sequence[Sequence[Measurement]]
) -> dict[Product, tuple[float, tuple[str, ...]]]:
    rates = _rates(groups)
    return {product: rates[product] for product in line if product in rates}


def _evidence(rates: Mapping[Product, tuple[float, tuple[str, ...]]]) -> tuple[str, ...]:
    return tuple(identity for _, identities in rates.values() for identity in identities)


def least(
    axis: str, line: Sequence[Product], groups: Sequence[Sequence[Measurement]], plateau: float
) -> Rule | None:
    """Return the smallest `axis` that keeps the plateau; None below three measured sizes."""
    rates = _rates_on(line, groups)
    sizes = sorted(getattr(product, axis) for product in rates)
    if len(sizes) < 3:
        return None
    good = {getattr(p, axis): rate >= ENOUGH * plateau for p, (rate, _) in rates.items()}
    holds = [size for index, size in enumerate(sizes) if all(good[s] for s in sizes[index:])]
    others = " x ".join(f"{name.upper()}={getattr(line[0], name)}" for name in AXES if name != axis)
    axis_name = axis.upper()
    if not holds:
        sentence = (
            f"no measured {axis_name} up to {sizes[-1]} reaches 95 % of the plateau at {others}"
        )
    elif holds[0] == sizes[0]:
        sentence = (
            f"{axis_name} >= {holds[0]} is enough at {others}; "
            "no smaller size was measured, so less may be enough too"
        )
    else:
        below = sizes[sizes.index(holds[0]) - 1]
        sentence = f"{axis_name} >= {holds[0]} is enough at {others}; {below} is not"
    value = float(holds[0]) if holds else None
    return Rule(name="least", axis=axis, value=value, sentence=sentence, evidence=_evidence(rates))


def least_flop(groups: Sequence[Sequence[Measurement]], plateau: float) -> Rule:
    """Return the cheapest measured shape on the plateau."""
    rates = _rates(groups)
    good = [product for product, (rate, _) in rates.items() if rate >= ENOUGH * plateau]
    cheapest = min(good, key=lambda p: p.flop)
    shape = f"{cheapest.m} x {cheapest.n} x {cheapest.k}"
    return Rule(
        name="flop",
        axis="",
        value=cheapest.flop,
        sentence=f"{cheapest.flop / 1e9:.3g} GFLOP can be enough: of {len(rates)} measured shapes, "
        f"{shape} is the cheapest that reaches 95 % of the plateau",
        evidence=rates[cheapest][1],
    )


def least_alignment(
    axis: str, line: Sequence[Product], groups: Sequence[Sequence[Measurement]]
) -> Rule | None:
    """Return the smallest multiple for `axis` that reaches 95 % of the best aligned size."""
    rates = _rates_on(line, groups)
    if len(rates) < 4:
        return None
    by_power = {alignment(getattr(p, axis)): rate for p, (rate, _) in rates.items()}
    powers = sorted(by_power)
    top = max(by_power[p] for p in powers if p >= powers[-1] - 1)
    enough = next(
        p
        for i, p in enumerate(powers)
        if all(by_power[q] >= ENOUGH * top for q in powers[i:]) or p == powers[-1]
    )
    worst = min(by_power.values()) / top
    if enough == powers[0]:
        sentence = (
            f"{axis.upper()} needs no alignment: "
            f"the slowest measured size reaches {worst:.0%} of the best rate"
        )
    else:
        sentence = (
            f"make {axis.upper()} a multiple of {2**enough}; "
            f"other sizes fall to as little as {worst:.0%} of the best rate"
        )
    return Rule(
        name="alignment",
        axis=axis,
        value=float(2**enough),
        sentence=sentence,
        evidence=_evidence(rates),
    )


def tile(
    axis: str, line: Sequence[Product], groups: Sequence[Sequence[Measurement]]
) -> Rule | None:
    """Return the period of the steps in the time along `axis`, or that no steps are visible."""
    rates = _rates_on(line, groups)
    if len(rates) < TILE_STEPS // 2:
        return None
    sizes = np.array([getattr(p, axis) for p in rates], dtype=float)
    seconds = np.array([p.flop / rate for p, (rate, _) in rates.items()])

    def scatter(covered: Array) -> float:
        design = np.stack([np.ones_like(covered), covered], axis=1)
        weights, *_ = np.linalg.lstsq(design / seconds[:, None], np.ones_like(seconds), rcond=None)
        return float(((design @ weights / seconds - 1) ** 2).sum())

    smooth = scatter(sizes)
    stepped = {period: scatter(np.ceil(sizes / period) * period) for period in TILES}
    best = min(stepped, key=lambda period: stepped[period])
    has_steps = stepped[best] < WORTH_STEPS * smooth
    if has_steps:
        sentence = (
            f"the time grows in steps of {best} along {axis.upper()}: "
            f"make {axis.upper()} a multiple of {best} to fill whole tiles"
        )
    else:
        sentence = (
            f"no steps along {axis.upper()} between {int(sizes.min())} and {int(sizes.max())}: "
            "the tile size cannot be seen"
        )
    return Rule(
        name="tile",
        axis=axis,
        value=float(best) if has_steps else None,
        sentence=sentence,
        evidence=_evidence(rates),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRule:
    """A rule that somebody published: avoid sizes below these."""

    source: str
    least_m: int
    least_n: int
    least_k: int
    least_flop: float

    def applied(self, product: Product) -> Product:
        """Return the product padded to fulfil the rule: sizes first, then M until the FLOP do."""
        m, n, k = (
            max(product.m, self.least_m),
            max(product.n, self.least_n),
            max(product.k, self.least_k),
        )
        return Product(
            m=max(m, math.ceil(self.least_flop / (2.0 * n * k))), n=n, k=k, layout=product.layout
        )


MI300X_NOTE = PublishedRule(
    source="a note on training ZAYA1 on MI300X (in Chinese): K >= 7168, M and N >= 512, 200 GFLOP",
    least_m=512,
    least_n=512,
    least_k=7168,
    least_flop=200e9,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of padding a model's products to a rule, as ratios to the products as they are.

    `flop` and `seconds` (predicted) are with padding over without.
    """

    flop: float
    seconds: float
    kept: int  # products that need no padding
    products: int
    is_extrapolated: bool


def cost_of(rule: PublishedRule, model: GemmModel, products: Sequence[tuple[Product, int]]) -> Cost:
    """Return the cost of padding to `rule`; each product is given with its calls in a step."""
    padded = [(rule.applied(product), count) for product, count in products]
    seconds = [
        float(
            model.seconds([p for p, _ in rows])
            @ np.array([count for _, count in rows], dtype=float)
        )
        for rows in (products, padded)
    ]
    flop = [sum(p.flop * count for p, count in rows) for rows in (products, padded)]
    return Cost(
        flop=flop[1] / flop[0],
        seconds=seconds[1] / seconds[0],
        kept=sum(a == b for (a, _), (b, _) in zip(products, padded, strict=True)),
        products=len(products),
        is_extrapolated=any(model.predict(p).doubts for p, _ in padded),
    )
