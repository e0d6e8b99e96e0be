"""The sections to act on: choices down to their samples, roofline, maps, published ranges, what changed, what cannot be right."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mi300bench.ingest.store_files import import_files
from mi300bench.measurement.settings import Settings
from mi300bench.schema.model import Gemm
from mi300bench.schema.record import Measurement, Work, World, short_hash
from mi300bench.store.reader import read_records
from tests.reports.test_report import config, records

from mi300bench_reports import page as pages
from mi300bench_reports.page import Page, Section, build
from mi300bench_reports.render import render

__all__ = ["config", "records"]
SAMPLES = Path(__file__).parents[1] / "importers" / "samples"


def section(page: Page, anchor: str) -> Section:
    return next(s for s in page.sections if s.anchor == anchor)


def gemm(make_record, m: int, n: int, k: int, rate: float, **parts) -> Measurement:
    flop = 2.0 * m * n * k
    params = {
        "m": m,
        "n": n,
        "k": k,
        "layout": "nn",
        "dtype": "bfloat16",
        "cache": "cold",
        "inputs": "normal",
    }
    work = Work(flop=flop, bytes_read=2.0 * (m * k + k * n), bytes_written=2.0 * m * n)
    return make_record("gemm", params=params, samples=(flop / rate,) * 5, work=work, **parts)


@pytest.fixture
def machine(make_record) -> list[Measurement]:
    """Products and memory of an MI300X, as if measured."""
    found = [
        gemm(make_record, m, n, k, 400e12 * k / (k + 800), device="AMD Instinct MI300X")
        for m in (1024, 4096)
        for n in (1024, 8192)
        for k in (256, 1024, 4096, 16384)
    ]
    size = 2**31
    copy = make_record(
        params={"bytes": size, "variant": "op"}, samples=(2 * size / 4.1e12,) * 5, work=Work(bytes_read=size, bytes_written=size),
        device="AMD Instinct MI300X",
    )  # fmt: skip
    return [*found, copy]


def test_a_choice_is_a_row_and_behind_it_are_the_samples(records, config) -> None:
    decided = section(build(records, config), "decisions")
    assert decided.table is not None and decided.table.rows[0][0] == "ddp.bucket_cap_mb"
    (detail,) = decided.details
    assert detail.table is not None
    samples = [row for row in detail.table.rows if row[0] == "record"]
    assert len(samples) == len(records) and any("1 1 1 1 1 s" in row[2] for row in samples)
    text = render(build(records, config))
    assert text.count('<details class="detail">') == 1


def test_the_roofline_has_published_roofs_and_the_map_the_model_s_own_products(machine) -> None:
    page = build(machine, None, (Gemm(name="q_proj", m=2048, n=4096, k=4096, count=1),))
    roof, mapped = section(page, "roofline"), section(page, "products-map")
    assert (
        "published bandwidth of 5.30 TB/s" in roof.sentences[0]
        and "bfloat16, published peak" in roof.chart
    )
    assert "q_proj" in mapped.chart and "Circles" in mapped.sentences[0]
    lonely = build(machine[:4], None)
    assert not [
        s for s in lonely.sections if s.anchor == "products-map"
    ]  # too few shapes for a map


def test_curves_stand_beside_what_is_published(tmp_path: Path) -> None:
    import_files(
        [SAMPLES / "rccl_all_reduce.txt"],
        Settings(store=tmp_path, node="n"),
        kind="auto",
        device="",
        is_check=False,
    )
    page = build(tuple(read_records(tmp_path)), None)
    assert ">published<" in section(page, "collectives-8").chart
    assert "nothing stands out" in section(page, "lint").sentences[0]


def test_ranks_and_pairs_have_maps(make_record) -> None:
    samples = tuple((1.0 + (0.2 if rank == 3 else 0.0),) * 5 for rank in range(8))
    ranked = make_record("collective.all_reduce", ranks=8, params={"bytes": 2**26, "dtype": "float32"}, rank_samples=samples,
                         work=Work(message_bytes=2**26))  # fmt: skip
    pairs = [
        make_record(
            "transfer",
            params={"bytes": 2**26, "src": f"G{a}", "dst": f"G{b}"},
            work=Work(message_bytes=2**26),
            id=f"{a}{b}",
        )
        for a in range(3)
        for b in range(3)
    ]
    page = build([ranked, *pairs], None)
    assert (
        section(page, "ranks").chart
        and section(page, "pairs").chart
        and "G2" in section(page, "pairs").chart
    )


def test_what_cannot_be_right_is_on_the_page(make_record, machine) -> None:
    size = 2**31
    wrong = make_record(
        params={"bytes": size, "variant": "op"}, samples=(2 * size / 9e12,) * 5, work=Work(bytes_read=size, bytes_written=size),
        device="AMD Instinct MI300X", id="impossible",
    )  # fmt: skip
    told = section(build([*machine, wrong], None), "lint")
    assert "stand out" in told.sentences[0] and told.table is not None
    assert (
        any("169" in row[3] and row[0] == "wrong" for row in told.table.rows)
        and "impossible" in told.evidence
    )
    claims = section(build(machine, None), "claims")
    assert claims.table is not None and any("1,278" in row[3] for row in claims.table.rows)


def test_the_odd_node_and_its_date_are_on_the_page(make_record) -> None:
    draw = np.random.default_rng(1)
    found = []
    for node in range(8):
        for week in range(6):
            slow = 1.06 if node == 5 and week >= 3 else 1.0
            for point in range(10):
                for number in range(3):
                    seconds = 1e-3 * (1 + point) * slow * float(np.exp(draw.normal(0, 0.006)))
                    found.append(
                        make_record(
                            params={"bytes": 2 ** (20 + point), "variant": "op"}, node=f"n{node}", samples=(seconds,) * 5,
                            run=f"2026100{week}T000000-{node}", pass_index=number, id=short_hash([node, week, point, number]),
                            started_at=f"2026-10-0{1 + week}T00:00:00+00:00", work=Work(bytes_read=1.0, bytes_written=1.0),
                        )
                    )  # fmt: skip
    page = build(found, None)
    nodes, changes = section(page, "nodes"), section(page, "changes")
    assert "Standing out: n5" in nodes.sentences[0]
    assert any(
        sentence.startswith("n5:") and "a step" in sentence and "2026-10-04" in sentence
        for sentence in changes.sentences
    )
    assert len([s for s in changes.sentences if "a step" in s]) == 1


def test_a_page_holds_the_newest_points_of_a_large_store_and_says_so(
    make_record, monkeypatch
) -> None:
    monkeypatch.setattr(pages, "MOST_POINTS", 10)
    many = [
        make_record(
            params={"bytes": 2**20 + i, "variant": "op"},
            run=f"r{i:03d}",
            world=World(ranks=1),
            work=Work(bytes_read=1.0),
        )
        for i in range(30)
    ]
    points = section(build(many, None), "points")
    assert (
        points.table is not None
        and len(points.table.rows) == 10
        and "newest 10 of 30" in points.sentences[1]
    )
    assert all(
        f"bytes={2**20 + i}" in row[1]
        for i, row in zip(range(20, 30), points.table.rows, strict=True)
    )


def test_injected_text_stays_text_in_every_new_section(machine, make_record) -> None:
    attack = '<script>alert("x")</script>'
    poisoned = [
        replace(
            r,
            node=attack,
            source=attack,
            params={**r.params, "dtype": attack} if r.probe == "gemm" else r.params,
        )
        for r in machine
    ]
    poisoned += [
        make_record(
            "transfer",
            params={"bytes": 2**20, "src": attack, "dst": f"G{i}"},
            work=Work(message_bytes=1.0),
            id=f"t{i}",
        )
        for i in range(3)
    ]
    ranked = make_record(
        f"collective.{attack}",
        ranks=3,
        rank_samples=((1.0,) * 5,) * 3,
        work=Work(message_bytes=8.0),
    )
    text = render(build([*poisoned, ranked], None))
    assert "<script>alert" not in text
