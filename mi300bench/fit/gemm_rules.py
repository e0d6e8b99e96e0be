"""A device's own rules of thumb for matrix products, read off measured lines through its best shape.

least       along one axis, the smallest size from which on all measured sizes reach 95 % of the plateau
flop        the cheapest measured shape that reaches it
alignment   the least power of two an axis must be a multiple of, to reach 95 % of a well aligned neighbour
tile        the period in which the time of a product goes up in steps, where there are steps

Each rule names the records behind it; where the measured range does not hold the answer, it says so.
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
# Sizes that are multiples of exactly 1, 2, 4 ... are tried above a base; steps are looked for in eighths above another.
ALIGNED_BASE, MOST_ALIGNED = 512, 128
TILE_BASE, TILE_STEP, TILE_STEPS = 256, 8, 24
TILES = (16, 32, 64, 128)
# Steps must explain this much more of the scatter than a straight line, to be believed.
WORTH_STEPS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: `value` in elements or FLOP, None where the data cannot tell; `said` is the sentence for people."""

    name: str
    axis: str
    value: float | None
    said: str
    evidence: tuple[str, ...]


def _with(product: Product, axis: str, size: int) -> Product:
    sizes = {name: getattr(product, name) for name in AXES} | {axis: size}
    return Product(**sizes, layout=product.layout)


def least_line(best: Product, axis: str, sizes: Sequence[int]) -> list[Product]:
    """Return the shapes along one axis through `best`."""
    return [_with(best, axis, size) for size in sizes]


def alignment_line(best: Product, axis: str) -> list[Product]:
    """Return shapes whose size on `axis` is a multiple of exactly 1, 2, 4 ... 128, close to each other."""
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


def _found(
    line: Sequence[Product], groups: Sequence[Sequence[Measurement]]
) -> dict[Product, tuple[float, tuple[str, ...]]]:
    rates = _rates(groups)
    return {product: rates[product] for product in line if product in rates}


def _evidence(found: Mapping[Product, tuple[float, tuple[str, ...]]]) -> tuple[str, ...]:
    return tuple(identity for _, identities in found.values() for identity in identities)


def least(
    axis: str, line: Sequence[Product], groups: Sequence[Sequence[Measurement]], plateau: float
) -> Rule | None:
    """Return the least size along `axis` that keeps the plateau, from the line's records; None where too few were measured."""
    found = _found(line, groups)
    sizes = sorted(getattr(product, axis) for product in found)
    if len(sizes) < 3:
        return None
    good = {getattr(p, axis): rate >= ENOUGH * plateau for p, (rate, _) in found.items()}
    holds = [size for index, size in enumerate(sizes) if all(good[s] for s in sizes[index:])]
    others = " x ".join(f"{name.upper()}={getattr(line[0], name)}" for name in AXES if name != axis)
    if not holds:
        value, said = (
            None,
            f"no measured {axis.upper()} up to {sizes[-1]} keeps 95 % of the plateau at {others}",
        )
    elif holds[0] == sizes[0]:
        value, said = (
            float(holds[0]),
            f"{axis.upper()} >= {holds[0]} or less: already the smallest measured one, at {others}",
        )
    else:
        below = sizes[sizes.index(holds[0]) - 1]
        value, said = (
            float(holds[0]),
            f"{axis.upper()} >= {holds[0]} ({below} is not enough), at {others}",
        )
    return Rule(name="least", axis=axis, value=value, said=said, evidence=_evidence(found))


def least_flop(groups: Sequence[Sequence[Measurement]], plateau: float) -> Rule:
    """Return the cheapest measured shape on the plateau."""
    rates = _rates(groups)
    good = [product for product, (rate, _) in rates.items() if rate >= ENOUGH * plateau]
    cheapest = min(good, key=lambda p: p.flop)
    said = (
        f"{cheapest.flop / 1e9:.3g} GFLOP can be enough: {cheapest.m} x {cheapest.n} x {cheapest.k} is the cheapest of "
        f"{len(rates)} measured shapes that reaches 95 % of the plateau"
    )
    return Rule(name="flop", axis="", value=cheapest.flop, said=said, evidence=rates[cheapest][1])


def least_alignment(
    axis: str, line: Sequence[Product], groups: Sequence[Sequence[Measurement]]
) -> Rule | None:
    """Return the least multiple for `axis` that reaches 95 % of the best aligned size of the line."""
    found = _found(line, groups)
    if len(found) < 4:
        return None
    by_power = {alignment(getattr(p, axis)): rate for p, (rate, _) in found.items()}
    powers = sorted(by_power)
    top = max(by_power[p] for p in powers if p >= powers[-1] - 1)
    enough = next(
        p
        for i, p in enumerate(powers)
        if all(by_power[q] >= ENOUGH * top for q in powers[i:]) or p == powers[-1]
    )
    worst = min(by_power.values()) / top
    if enough == powers[0]:
        said = f"{axis.upper()} needs no alignment: the worst size of the line reaches {worst:.0%} of the best"
    else:
        said = (
            f"{axis.upper()} a multiple of {2**enough}; otherwise down to {worst:.0%} of the best"
        )
    return Rule(
        name="alignment", axis=axis, value=float(2**enough), said=said, evidence=_evidence(found)
    )


def tile(
    axis: str, line: Sequence[Product], groups: Sequence[Sequence[Measurement]]
) -> Rule | None:
    """Return the period of steps in the time along `axis`, or that there are none to be seen."""
    found = _found(line, groups)
    if len(found) < TILE_STEPS // 2:
        return None
    sizes = np.array([getattr(p, axis) for p in found], dtype=float)
    seconds = np.array([p.flop / rate for p, (rate, _) in found.items()])

    def scatter(covered: Array) -> float:
        design = np.stack([np.ones_like(covered), covered], axis=1)
        weights, *_ = np.linalg.lstsq(design / seconds[:, None], np.ones_like(seconds), rcond=None)
        return float(((design @ weights / seconds - 1) ** 2).sum())

    smooth = scatter(sizes)
    stepped = {period: scatter(np.ceil(sizes / period) * period) for period in TILES}
    best = min(stepped, key=lambda period: stepped[period])
    if stepped[best] < WORTH_STEPS * smooth:
        value, said = (
            float(best),
            f"the time goes up in steps of {best} along {axis.upper()}: fill whole tiles",
        )
    else:
        value, said = (
            None,
            f"no steps along {axis.upper()} between {int(sizes.min())} and {int(sizes.max())}: tiles cannot be told",
        )
    return Rule(name="tile", axis=axis, value=value, said=said, evidence=_evidence(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRule:
    """A rule from elsewhere: sizes below these are to be avoided."""

    source: str
    least_m: int
    least_n: int
    least_k: int
    least_flop: float

    def applied(self, product: Product) -> Product:
        """Return the product padded until the rule holds: K first, then M until the FLOP are reached."""
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
    """What padding a model's products to a rule would do: FLOP and predicted seconds over those without it."""

    flop: float
    seconds: float
    kept: int  # products that fulfil the rule as they are
    products: int
    is_extrapolated: bool


def cost_of(rule: PublishedRule, model: GemmModel, products: Sequence[tuple[Product, int]]) -> Cost:
    """Return what following `rule` would cost for products that each run so often in a step."""
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
