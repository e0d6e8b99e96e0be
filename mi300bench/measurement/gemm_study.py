"""What products cost on this device, within a budget: the best shape, the rules of thumb, a fit for every other shape.

One share of the time looks for the best shape of the grid; one walks lines through it, from which the device's own rules
come; the rest measures shapes drawn at random, on which the fit learns and is judged. Every answer is a record.
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
from mi300bench.measurement.measure import Measured, asking
from mi300bench.measurement.settings import Settings
from mi300bench.measurement.shape_search import Found, search_shapes
from mi300bench.schema.model import Gemm
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.record import Measurement, Outcome, World
from mi300bench.store.select import by_point

# A sample of the search: enough to rank shapes. Rules and fit take more.
SEARCH_STOP = Stop(
    relative_ci=0.03, min_samples=5, max_seconds=0.25, warmup_seconds=0.02, min_warmup_calls=1
)
STUDY_STOP = Stop(
    relative_ci=0.02, min_samples=5, max_seconds=0.4, warmup_seconds=0.03, min_warmup_calls=1
)
# Shares of the budget: until here the search, until there the lines of the rules, the rest for the fit.
SEARCH_UNTIL, RULES_UNTIL = 0.4, 0.7
# Random shapes span the grid on each axis, and this many times more of the reduction: models reduce over tokens.
REDUCTION_BEYOND = 4
MOST_SAMPLES = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmStudy:
    """What came out for one type."""

    dtype: str
    found: Found
    rules: tuple[gemm_rules.Rule, ...]
    model: GemmModel | None  # None where the budget left too few shapes
    measured: Measured
    score: Score | None = None  # of the workload's products, where one was given
    published: gemm_rules.Cost | None = (
        None  # what following a published rule would cost that workload
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """How products are measured: world, type, cache and inputs, and the open run."""

    world: World
    dtype: str
    cache: str
    inputs: str
    ask: Callable[[Point], Measurement]

    def record(self, product: Product, stop: Stop) -> Measurement:
        """Return the record of one product, measured now."""
        return self.ask(
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
        """Return the seconds of one product, NaN where it has no speed."""
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
    """Return whether a grid has enough shapes for a search; a smaller one is measured whole."""
    return len(grid_of(axes, "nn")) >= FEWEST_SHAPES


def random_shapes(
    axes: Sequence[Sequence[int]], layouts: Sequence[str], *, seed: int
) -> Iterator[Product]:
    """Yield shapes drawn log-uniformly within the axes, every second one with aligned sizes; the largest FLOP of the grid holds."""
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
    """Yield the shapes of every rule's line, the most wanted rules first."""
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
    """Return the rules that the records of the lines hold."""
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
) -> GemmStudy:
    """Return what products of `dtype` cost here, measured within `budget_s` seconds.

    The products of a `workload` are measured first, beside that budget, and scored.
    """
    grid = grid_of(axes, layouts[0])
    if len(grid) < FEWEST_SHAPES:
        raise PlanError(
            f"a search over {len(grid)} shapes is no search",
            hint="leave --budget out, or widen --m, --n and --k",
        )
    opening = [point_of(grid[0], world, dtype=dtype, cache=cache, inputs=inputs, stop=SEARCH_STOP)]
    plan = plans.plan(f"What do {dtype} products cost, and which shape is best?", opening, passes=1)
    with asking(plan, settings) as run:
        ask = Ask(world=world, dtype=dtype, cache=cache, inputs=inputs, ask=run.ask)
        for product in dict.fromkeys(product for product, _ in products_of(workload)):
            ask.record(product, STUDY_STOP)
        begin = time.monotonic()
        try:
            found = search_shapes(
                grid, ask.seconds, seconds=SEARCH_UNTIL * budget_s, now=time.monotonic
            )
        except ValueError as cause:
            raise ProbeError(
                f"{dtype}: {cause}: {_first_reason(run.done())}", hint="see the reason"
            ) from cause
        for product in rule_lines(found.best, axes):
            if time.monotonic() - begin > RULES_UNTIL * budget_s:
                settings.say("the budget was used up before all lines of the rules of thumb")
                break
            ask.record(product, STUDY_STOP)
        for _, product in zip(
            range(MOST_SAMPLES), random_shapes(axes, layouts, seed=seed), strict=False
        ):
            if time.monotonic() - begin > budget_s:
                break
            ask.record(product, STUDY_STOP)
        measured = run.done()
    groups = list(by_point(r for r in measured.records if r.outcome is Outcome.OK).values())
    enough = (
        len({(g[0].params["m"], g[0].params["n"], g[0].params["k"]) for g in groups})
        >= FEWEST_SHAPES
    )
    model = fit_gemm(groups) if enough else None
    return GemmStudy(
        dtype=dtype,
        found=found,
        rules=tuple(read_rules(found.best, axes, groups, found.rate)),
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
        else "the budget is too short for one shape"
    )
