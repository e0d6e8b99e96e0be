"""The best shape of a grid: our search against the whole grid and against Optuna.

Both have the same budget, and three seeds.

    python -m tests.peers.gemm_search

Every shape of the grid is measured once, by the very call that the searches use. What is within 1 %
of the best is judged by a smooth surface through all of those measurements, since the largest of a
thousand noisy figures is a lucky one; then the picks and the grid's best are measured afresh, in
turn (ABBA).
"""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from mi300bench.fit.gaussian import fit_process
from mi300bench.fit.gemm import Product
from mi300bench.measurement import shape_search
from mi300bench.measurement.gemm_study import SEARCH_STOP, STUDY_STOP, ProductRun, grid_of, point_of
from mi300bench.measurement.local_topology import local_topology
from mi300bench.measurement.measure import adaptive_run
from mi300bench.measurement.plans import plan
from mi300bench.measurement.settings import Settings

AXIS = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
DTYPE = "bfloat16"
SEEDS = (1, 2, 3)
SHARE = 0.05
WITHIN = 0.01


def with_optuna(
    products: ProductRun, seconds: float, seed: int
) -> list[tuple[Product, float, float]]:
    """Return (shape, rate, moment) of each trial of Optuna's default sampler within `seconds`."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tried: list[tuple[Product, float, float]] = []
    start = time.monotonic()

    def objective(trial: "optuna.Trial") -> float:
        m, n, k = (trial.suggest_int(name, 0, len(AXIS) - 1) for name in "mnk")
        product = Product(m=AXIS[m], n=AXIS[n], k=AXIS[k])
        rate = product.flop / products.seconds(product)
        tried.append((product, rate, time.monotonic() - start))
        return rate

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, timeout=seconds)
    return tried


def time_to(
    tried: list[tuple[Product, float, float]], truth: dict[Product, float], best: float
) -> float | None:
    """Return when the best seen so far comes within 1 % of the best in truth and stays there."""
    moment, leader = None, 0.0
    for product, rate, at in tried:
        if rate > leader:
            leader = rate
            is_good = truth[product] >= (1 - WITHIN) * best
            moment = (moment or at) if is_good else None
    return moment


def main() -> None:
    grid = grid_of([AXIS] * 3, "nt")
    alone = local_topology("cpu", 1)
    settings = Settings(store=Path(tempfile.mkdtemp()), say=print)
    opening = point_of(grid[0], alone, dtype=DTYPE, cache="cold", inputs="normal", stop=SEARCH_STOP)
    with adaptive_run(plan("Which shape is best?", [opening], passes=1), settings) as run:
        products = ProductRun(
            world=alone, dtype=DTYPE, cache="cold", inputs="normal", measure=run.measure
        )
        products.seconds(grid[0])  # the worker's start is nobody's time
        order = np.random.default_rng(0).permutation(len(grid))
        start = time.monotonic()
        seconds = {grid[index]: products.seconds(grid[index]) for index in order}
        whole = time.monotonic() - start
        features = shape_search._features(grid)
        logs = np.log([p.flop / seconds[p] for p in grid])
        surface, _ = fit_process(features, logs).predict(features)
        truth = {p: float(np.exp(v)) for p, v in zip(grid, surface, strict=True)}
        champion = max(truth, key=lambda p: truth[p])
        best, budget = truth[champion], SHARE * whole
        print(
            f"grid of {len(grid)} shapes: {whole:.0f} s; "
            f"best {shape(champion)} {best / 1e9:.0f} GFLOPS; budget {budget:.1f} s"
        )
        picks = {"grid": champion}
        for seed in SEEDS:
            begin = time.monotonic()
            found = shape_search.search_shapes(
                grid, products.seconds, seconds=budget, now=time.monotonic, seed=seed
            )
            ours = [(t.product, t.rate, t.at_s) for t in found.trace]
            spent = time.monotonic() - begin
            theirs = with_optuna(products, budget, seed)
            their_pick = max(theirs, key=lambda row: row[1])[0]
            picks |= {f"ours {seed}": found.best, f"optuna {seed}": their_pick}
            for who, tried, took, pick in (
                ("ours", ours, spent, found.best),
                ("optuna", theirs, budget, their_pick),
            ):
                moment = time_to(tried, truth, best)
                when = (
                    "never"
                    if moment is None
                    else f"{moment:.1f} s = {moment / whole:.1%} of the grid"
                )
                print(
                    f"seed {seed} {who:>6}: {len(tried)} tries in {took:.1f} s, "
                    f"within 1 % after {when}; "
                    f"pick {shape(pick)} at {truth[pick] / best:.3f} of the best by the surface"
                )
        fresh: dict[str, list[float]] = {name: [] for name in picks}
        for number in range(6):
            for name in list(picks) if number % 2 == 0 else list(picks)[::-1]:
                record = products.record(picks[name], STUDY_STOP)
                fresh[name].append(picks[name].flop / statistics.median(record.samples))
        base = statistics.median(fresh["grid"])
        print(
            "measured afresh, in turn, over the grid's best: "
            + ", ".join(
                f"{name} {statistics.median(rates) / base:.3f}" for name, rates in fresh.items()
            )
        )


def shape(product: Product) -> str:
    return f"{product.m}x{product.n}x{product.k}"


if __name__ == "__main__":
    main()
