"""What runs often: the harness around a call, reading a store, fitting, simulating, searching.

``make perf`` times them; in the test run they only have to work.

Each group has a peer or a floor measured in the same run: a bare loop, json.loads, numpy's least
squares, one simulation.
"""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import pytest
from mi300bench.fit.gemm import Product, fit_gemm
from mi300bench.fit.link import fit_link
from mi300bench.fit.step import Factors
from mi300bench.measurement.gemm_study import grid_of
from mi300bench.measurement.shape_search import search_shapes
from mi300bench.runner.group import Solo
from mi300bench.runner.timing import measure
from mi300bench.schema.candidate import Knob, Option, combinations
from mi300bench.schema.plan import Stop
from mi300bench.schema.probe import AbstractProbe
from mi300bench.schema.record import Work, World
from mi300bench.store.reader import read_records
from mi300bench.store.writer import RunWriter
from mi300bench.strategies.ddp.buckets import bucket_knob
from mi300bench.strategies.ddp.layouts import Layout
from mi300bench.strategies.ddp.predictor import DataParallelPredictor
from mi300bench.tuning.search import rank
from tests.fit.test_step import model

CALLS = 20_000


@final
class Nothing(AbstractProbe):
    """A call that does nothing, so that what is left is the harness."""

    def prepare(self) -> None:
        self.calls = 0

    def call(self) -> None:
        self.calls += 1

    def work(self) -> Work:
        return Work()

    def check(self) -> str:
        return ""


def device() -> Any:
    def seconds(call: Any, calls: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return (time.perf_counter_ns() - start) * 1e-9 / calls

    return SimpleNamespace(
        seconds=seconds,
        synchronize=lambda: None,
        flush=lambda: None,
        readings=dict,
        is_asynchronous=False,
    )


@pytest.mark.benchmark(group="harness: 20,000 calls")
def test_calls_under_the_harness(benchmark) -> None:
    stop = Stop(
        relative_ci=0.0, min_samples=5, max_seconds=0.0, warmup_seconds=0.0, min_warmup_calls=CALLS
    )

    def run() -> int:
        probe = Nothing({}, SimpleNamespace(rank=0, ranks=1, device=None))
        measure(probe, device(), stop, Solo())
        return probe.calls

    assert benchmark(run) >= CALLS


@pytest.mark.benchmark(group="harness: 20,000 calls")
def test_the_same_calls_in_a_bare_loop(benchmark) -> None:
    def run() -> int:
        probe = Nothing({}, SimpleNamespace(rank=0, ranks=1, device=None))
        probe.prepare()
        for _ in range(CALLS):
            probe.call()
        return probe.calls

    assert benchmark(run) == CALLS


@pytest.fixture
def store(tmp_path: Path, make_record) -> Path:
    with RunWriter(tmp_path, node="n1", header={}) as writer:
        for size in range(300):
            writer.write(make_record(params={"bytes": size}, samples=(1.0,) * 20))
    return tmp_path


@pytest.mark.benchmark(group="store")
def test_reading_a_store(benchmark, store: Path) -> None:
    assert len(benchmark(read_records, store)) == 300


@pytest.mark.benchmark(group="store")
def test_reading_the_same_lines_with_json_alone(benchmark, store: Path) -> None:
    (path,) = store.glob("*/*.jsonl")
    assert (
        len(benchmark(lambda: [json.loads(line) for line in path.read_bytes().splitlines()])) == 301
    )


@pytest.mark.benchmark(group="fit of a link")
def test_fitting_a_link(benchmark, make_record) -> None:
    groups = [
        [
            make_record(
                "collective.all_reduce",
                params={"bytes": s},
                ranks=2,
                samples=(1e-4 + s / 1e9,) * 9,
                work=Work(message_bytes=s),
            )
        ]
        for s in (2**k for k in range(3, 29, 2))
    ]
    assert benchmark(fit_link, groups).bandwidth == pytest.approx(1e9, rel=1e-3)


@pytest.fixture
def products(make_record):
    draw = np.random.default_rng(0)
    groups = []
    for _ in range(80):
        m, n, k = (int(2 ** draw.uniform(6, 11)) for _ in range(3))
        took = 1e-5 + 2.0 * m * n * k / 1e12
        params = {"m": m, "n": n, "k": k, "layout": "nt", "dtype": "float32"}
        groups.append(
            [
                make_record(
                    "gemm", params=params, samples=(took,) * 5, work=Work(flop=2.0 * m * n * k)
                )
            ]
        )
    return groups


@pytest.mark.benchmark(group="fit of 80 products")
def test_fitting_products(benchmark, products) -> None:
    fitted = benchmark.pedantic(fit_gemm, args=(products,), kwargs={"held_out": False}, rounds=3)
    assert fitted.predict(Product(m=512, n=512, k=512)).value.mid == pytest.approx(
        2.0 * 512**3 / 1e12, rel=0.2
    )


@pytest.mark.benchmark(group="fit of 80 products")
def test_least_squares_through_the_same_products(benchmark, products) -> None:
    rows = np.array([[1.0, float(g[0].work.flop)] for g in products])
    seconds = np.array([g[0].samples[0] for g in products])
    weights = benchmark(lambda: np.linalg.lstsq(rows, seconds, rcond=None)[0])
    assert weights[1] == pytest.approx(1e-12, rel=1e-3)


EXPERT_WAYS = tuple(Option(keys={"compute.experts": way}) for way in ("padded", "loop"))


def predictor() -> DataParallelPredictor:
    made = model([0.01 * i for i in range(1, 201)], [1.1] * 200, backward=2.0, latency=1e-4)
    world = World(ranks=2, threads=1)
    return DataParallelPredictor(
        default=Layout(world=world, micro_batch=4, accumulate=1),
        models={(world, 4): made},
        effects={way.identity: Factors(forward=0.9, backward=0.9) for way in EXPERT_WAYS},
    )


@pytest.mark.benchmark(group="search")
def test_one_simulated_step(benchmark) -> None:
    made = predictor().default_model
    assert benchmark(made.simulate, 1.0).step_s > 2.0


@pytest.mark.benchmark(group="search")
def test_searching_a_space_of_packings_and_experts(benchmark) -> None:
    predicts = predictor()
    knobs = [
        bucket_knob(predicts.default_model, torch_version="2.13"),
        Knob(name="experts", options=(Option(), *EXPERT_WAYS)),
    ]
    candidates = list(combinations(knobs, most=10_000))
    ranked = benchmark.pedantic(rank, args=(candidates, predicts.simulate), rounds=3)
    assert len(ranked) == len(candidates) and ranked[0].seconds <= ranked[-1].seconds


@pytest.mark.benchmark(group="search of a shape")
def test_searching_a_grid_of_shapes(benchmark) -> None:
    grid = grid_of([(64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)] * 3, "nt")
    found = benchmark.pedantic(
        search_shapes,
        args=(grid, lambda p: p.flop / (1e12 * p.k / (p.k + 100))),
        kwargs={"seconds": 1e9, "now": lambda: 0.0},
        rounds=2,
    )
    assert found.best.k == 2048
