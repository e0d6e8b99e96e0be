"""What runs often: reading a store, fitting, searching. ``make perf`` times them; here they only have to work.

Ratios are against a peer in the same run: reading a store against json.loads alone.
"""

import json
from pathlib import Path

import pytest
from mi300bench.fit.link import fit_link
from mi300bench.schema.record import Work
from mi300bench.store.reader import read_records
from mi300bench.store.writer import RunWriter
from mi300bench.tune.search import rank
from mi300bench.tune.space import bucket_caps, distinct_packings
from tests.fit.test_step import model


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
    assert len(benchmark(lambda: [json.loads(line) for line in path.read_bytes().splitlines()])) == 301


@pytest.mark.benchmark(group="fit")
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


@pytest.mark.benchmark(group="search")
def test_searching_all_packings(benchmark) -> None:
    made = model([0.01 * i for i in range(1, 201)], [1.1] * 200, backward=2.0, latency=1e-4)
    sizes = made.timeline.gradient_bytes
    candidates = distinct_packings(sizes, bucket_caps(sizes, torch_version="2.13"))
    assert len(benchmark(rank, made, candidates)) == len(candidates)
