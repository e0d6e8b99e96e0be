"""The cost of matrix products on this device: best shape, rules of thumb, a fit for other shapes.

The budget has three parts. The first searches the grid for its best shape. The second measures
lines of shapes through the best one, which give the device's rules of thumb. The third measures
random shapes, which the fit is made from and tested on. Every measurement is a record.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mi300bench import stats
from mi300bench.errors import PlanError, ProbeError
from mi300bench.fit import gemm_rules
from mi300bench.fit.gemm import (
    FEWEST_SHAPES,
    GemmModel,
    Product,
    Score,
    fit_gemm,
    products_of,
    workload_score,
)
from mi300bench.measurement import plans
from mi300bench.measurement.measure import Measured, adaptive_run
from mi300bench.measurement.settings import Settings
from mi300bench.measurement.shape_search import BestShape, search_shapes
from mi300bench.schema.model import Gemm
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.record import Measurement, Outcome, World
from mi300bench.store.select import by_point

# The search only ranks shapes, so it stops sampling earlier than rules and fit.
SEARCH_STOP = Stop(
    relative_ci=0.03, min_samples=5, max_seconds=0.25, warmup_seconds=0.02, min_warmup_calls=1
)
STUDY_STOP = Stop(
    relative_ci=0.02, min_samples=5, max_seconds=0.4, warmup_seconds=0.03, min_warmup_calls=1
)
# The shares of the budget after which the search and the lines of the rules end.
SEARCH_UNTIL, RULES_UNTIL = 0.4, 0.7
# Random shapes lie within the grid, but K may be this many times larger: models reduce over tokens.
REDUCTION_BEYOND = 4
MOST_SAMPLES = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmStudy:
    """The results for one data type.

    `model` is None where the budget left too few shapes. `score` is the rate of the workload's
    products, `published` the cost of padding them to a published rule; both need a workload.
    """

    dtype: str
    search: BestShape
    rules: tuple[gemm_rules.Rule, ...]
    model: GemmModel | None
    measured: Measured
    score: Score | None = None
    published: gemm_rules.Cost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductRun:
    """An open run that measures products, and how: world, data type, cache and inputs."""

    world: World
    dtype: str
    cache: str
    inputs: str
    measure: Callable[[Point], Measurement]

    def record(self, product: Product, stop: Stop) -> Measurement:
        """Measure one product now and return its record."""
        return self.measure(
            point_of(
                product,
                self.world,
                dtype=self.dtype,
                cache=self.cache,
                inputs=self.inputs,
                stop=stop,
            )
        )

    def seconds(self, product: Product) -> float:
        """Measure one product now and return its seconds; NaN where it has no speed."""
        record = self.record(product, SEARCH_STOP)
        return stats.seconds_per_call(record) if record.outcome is Outcome.OK else float("nan")


def point_of(
    product: Product, world: World, *, dtype: str, cache: str, inputs: str, stop: Stop
) -> Point:
    """Return the point of one product."""
    shape = (product.m, product.n, product.k)
    return plans.gemm_points(
        [shape],
        world,
        layouts=[product.layout],
        dtypes=[dtype],
        cache=cache,
        inputs=inputs,
        stop=stop,
    )[0]


def grid_of(axes: Sequence[Sequence[int]], layout: str) -> list[Product]:
    """Return every shape of the grid."""
    return [Product(m=m, n=n, k=k, layout=layout) for m, n, k in itertools.product(*axes)]


def is_searchable(axes: tuple[tuple[int, ...], ...]) -> bool:
    """Return whether a grid has enough shapes for a search."""
    return len(grid_of(axes, "nn")) >= FEWEST_SHAPES


def random_shapes(
    axes: Sequence[Sequence[int]], layouts: Sequence[str], *, seed: int
) -> Iterator[Product]:
    """Yield random shapes, log-uniform within the axes; every second one has aligned sizes.

    No shape has more FLOP than the largest of the grid.
    """
    draw = np.random.default_rng(seed)
    lows = [max(1, min(axis)) for axis in axes]
    highs = [max(axis) for axis in axes]
    most_flop = 2.0 * highs[0] * highs[1] * highs[2]
    highs[2] *= REDUCTION_BEYOND
    for number in itertools.count():
        sizes = [
            round(float(np.exp(draw.uniform(np.log(low), np.log(high)))))
            for low, high in zip(lows, highs, strict=True)
        ]
        if number % 2:
            step = int(draw.choice([8, 16, 32, 64]))
            sizes = [max(step, round(size / step) * step) for size in sizes]
        product = Product(
            m=sizes[0], n=sizes[1], k=sizes[2], layout=layouts[number // 2 % len(layouts)]
        )
        if product.flop <= most_flop:
            yield product


def rule_lines(best: Product, axes: Sequence[Sequence[int]]) -> Iterator[Product]:
    """Yield the shapes of the lines of every rule, the most useful rules first."""
    for axis, sizes in zip(gemm_rules.AXES, axes, strict=True):
        yield from gemm_rules.least_line(best, axis, sorted(sizes))
    for axis in gemm_rules.AXES:
        yield from gemm_rules.alignment_line(best, axis)
    for axis in ("m", "n"):
        yield from gemm_rules.tile_line(best, axis)


def read_rules(
    best: Product,
    axes: Sequence[Sequence[int]],
    groups: Sequence[Sequence[Measurement]],
    plateau: float,
) -> list[gemm_rules.Rule]:
    """Return the rules that follow from the records of the lines."""
    by_axis = zip(gemm_rules.AXES, axes, strict=True)
    rules = [
        gemm_rules.least(axis, gemm_rules.least_line(best, axis, sizes), groups, plateau)
        for axis, sizes in by_axis
    ]
    rules.append(gemm_rules.least_flop(groups, plateau))
    rules += [
        gemm_rules.least_alignment(axis, gemm_rules.alignment_line(best, axis), groups)
        for axis in gemm_rules.AXES
    ]
    rules += [
        gemm_rules.tile(axis, gemm_rules.tile_line(best, axis), groups) for axis in ("m", "n")
    ]
    return [rule for rule in rules if rule is not None]


def study(
    axes: Sequence[Sequence[int]],
    world: World,
    settings: Settings,
    *,
    dtype: str,
    layouts: Sequence[str],
    cache: str,
    inputs: str,
    budget_s: float,
    seed: int = 0,
    workload: Sequence[Gemm] = (),
    now: Callable[[], float] = time.monotonic,
) -> GemmStudy:
    """Return the cost of products of `dtype` on this device, measured within `budget_s` seconds.

    The products of a `workload` are measured first; their time does not count towards the budget.
    """
    grid = grid_of(axes, layouts[0])
    if len(grid) < FEWEST_SHAPES:
        raise PlanError(
            f"the grid has {len(grid)} shapes, a search needs at least {FEWEST_SHAPES}",
            hint="leave --budget out to measure the whole grid, or widen --m, --n and --k",
        )
    opening = [point_of(grid[0], world, dtype=dtype, cache=cache, inputs=inputs, stop=SEARCH_STOP)]
    plan = plans.plan(f"What do {dtype} products cost, and which shape is best?", opening, passes=1)
    with adaptive_run(plan, settings) as run:
        products = ProductRun(
            world=world, dtype=dtype, cache=cache, inputs=inputs, measure=run.measure
        )
        for product in dict.fromkeys(product for product, _ in products_of(workload)):
            products.record(product, STUDY_STOP)
        begin = now()
        try:
            search = search_shapes(grid, products.seconds, seconds=SEARCH_UNTIL * budget_s, now=now)
        except ValueError as cause:
            raise ProbeError(
                f"no {dtype} product could be measured: {_first_reason(run.done())}",
                hint="fix the cause, or give a larger --budget",
            ) from cause
        for product in rule_lines(search.best, axes):
            if now() - begin > RULES_UNTIL * budget_s:
                settings.say("the budget ended before all rules of thumb were measured")
                break
            products.record(product, STUDY_STOP)
        for _, product in zip(
            range(MOST_SAMPLES), random_shapes(axes, layouts, seed=seed), strict=False
        ):
            if now() - begin > budget_s:
                break
            products.record(product, STUDY_STOP)
        measured = run.done()
    groups = list(by_point(r for r in measured.records if r.outcome is Outcome.OK).values())
    shapes = {(g[0].params["m"], g[0].params["n"], g[0].params["k"]) for g in groups}
    model = fit_gemm(groups) if len(shapes) >= FEWEST_SHAPES else None
    return GemmStudy(
        dtype=dtype,
        search=search,
        rules=tuple(read_rules(search.best, axes, groups, search.rate)),
        model=model,
        measured=measured,
        score=workload_score(groups, workload) if workload else None,
        published=gemm_rules.cost_of(gemm_rules.MI300X_NOTE, model, products_of(workload))
        if model and workload
        else None,
    )


def _first_reason(measured: Measured) -> str:
    return (
        measured.tally.reasons[0]
        if measured.tally.reasons
        else "the budget ended before the first one"
    )
