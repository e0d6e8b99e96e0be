from dataclasses import replace
from pathlib import Path

import pytest
from mi300bench.api.reporting import write_report
from mi300bench.schema.doubt import FewPasses
from mi300bench.schema.record import Measurement, Origin, Outcome, Work
from mi300bench.store.writer import RunWriter
from tests.schema.test_config import tuned

from mi300bench_reports.page import build
from mi300bench_reports.render import render

ATTACK = '<script>alert("x")</script><img src=x onerror=alert(1)>$\\frac{1}{'


@pytest.fixture
def records(make_record) -> list[Measurement]:
    found = []
    for size in (2**16, 2**20, 2**24, 2**28):
        rate = 100e9 if size < 2**24 else 20e9
        found.append(
            make_record(
                params={"bytes": size, "variant": "op"},
                samples=(2 * size / rate,) * 5,
                work=Work(bytes_read=size, bytes_written=size),
            )
        )
        found.append(
            make_record("collective.all_reduce", params={"bytes": size, "dtype": "float32"}, ranks=2,
                        samples=(1e-4 + size / 1e9,) * 5, work=Work(message_bytes=size))
        )  # fmt: skip
    gemm = {"m": 64, "n": 64, "k": 64, "layout": "nn", "dtype": "float32", "cache": "hot"}
    found.append(
        make_record("gemm", params=gemm, work=Work(flop=2 * 64**3), doubts=(FewPasses(passes=1),))
    )
    found.append(
        make_record("gemm", params=gemm | {"m": 65}, outcome=Outcome.FAILED, reason="it broke")
    )
    parts = {
        "compute_alone_s": (1.0,),
        "collective_alone_s": (1.5,),
        "compute_beside_s": (1.2,),
        "both_s": (1.6,),
    }
    found.append(
        make_record(
            "overlap",
            params={"bytes": 2**20, "m": 8, "n": 8, "k": 8, "dtype": "float32"},
            ranks=2,
            series=parts,
            work=Work(message_bytes=2**21),
        )
    )
    found.append(
        make_record(
            "zaya1.train",
            params={"preset": "tiny"},
            series={"loss": (5.0, 4.0), "held_out_loss": (4.1,)},
        )
    )
    timeline = {"parameter": ("a", "b"), "parameter_bytes": (2**20, 2**22), "ready_s": (0.1, 0.2) * 5, "forward_s": (0.1,) * 5,
                "backward_s": (0.2,) * 5, "update_s": (0.1,) * 5}  # fmt: skip
    found.append(make_record("zaya1.backward", params={"preset": "tiny"}, ranks=2, series=timeline))
    found.append(
        make_record("zaya1.step", params={"preset": "tiny", "ddp.bucket_cap_mb": "1,50"}, ranks=2)
    )
    return found


@pytest.fixture
def config(records):
    choice = tuned().choices["ddp.bucket_cap_mb"]
    alternatives = (
        *choice.alternatives,
        replace(choice.alternatives[0], value=[1.0, 50.0], same_as=()),
    )
    evidence = tuple(r.id for r in records)
    return replace(
        tuned(),
        choices={
            "ddp.bucket_cap_mb": replace(choice, evidence=evidence, alternatives=alternatives)
        },
    )


def test_the_same_records_give_the_same_bytes(records, config) -> None:
    assert render(build(records, config)) == render(build(list(reversed(records)), config))


def test_the_first_line_says_which_machine(records, config) -> None:
    text = render(build(records, config))
    assert text.index("<h1>n1: a CPU</h1>") < text.index("<h2")


def test_every_part_is_there(records, config) -> None:
    page = build(records, config)
    anchors = [section.anchor for section in page.sections]
    assert anchors == [
        "decisions", "against", "timeline", "memory", "products", "collectives-2", "overlap", "training", "doubts", "failures",
        "conditions", "reproduce", "claims", "points",
    ]  # fmt: skip
    assert page.verdict is not None and "ddp.bucket_cap_mb" in page.verdict.set_this
    charts = {s.anchor for s in page.sections if s.chart}
    assert charts == {"timeline", "against", "memory", "products", "collectives-2", "training"}


def test_an_unknown_peak_is_shown_as_unknown(records) -> None:
    (memory,) = [s for s in build(records, None).sections if s.anchor == "memory"]
    assert any("no published peak" in sentence for sentence in memory.sentences)


def test_a_knee_is_named(records) -> None:
    (memory,) = [s for s in build(records, None).sections if s.anchor == "memory"]
    assert any("falls at" in sentence for sentence in memory.sentences)


def test_emulated_data_is_said_before_anything_else(records) -> None:
    made = [replace(r, origin=Origin.EMULATED, source="two namespaces") for r in records]
    text = render(build(made, None))
    assert text.index("emulated data: two namespaces") < text.index("<main")


def test_whatever_a_record_says_stays_text(records, config) -> None:
    poisoned = [
        replace(r, node=ATTACK, device=ATTACK, source=ATTACK, conditions={ATTACK: ATTACK})
        for r in records
    ]
    poisoned.append(
        replace(records[-1], outcome=Outcome.FAILED, reason=ATTACK, params={ATTACK: ATTACK})
    )
    gemm = next(r for r in records if r.probe == "gemm")
    poisoned.append(
        replace(
            gemm, params={**gemm.params, "dtype": ATTACK, "layout": ATTACK}, point="p2", node=ATTACK
        )
    )
    attacked = replace(config, trainer=ATTACK, node=ATTACK, made_by=ATTACK)
    text = render(build(poisoned, attacked))
    assert "<script>alert" not in text and "<img" not in text


def test_the_file_needs_no_network(records, config) -> None:
    text = render(build(records, config))
    assert "default-src 'none'" in text
    outside = [
        part[:60]
        for part in text.replace("http://www.w3.org", "").split("http")[1:]
        if part[:4] in ("://", "s://")
    ]
    # matplotlib names its namespaces by address; nothing is fetched from them.
    assert all("purl.org" in part or "creativecommons.org" in part for part in outside), outside


def test_the_report_is_written_whole(tmp_path: Path, records) -> None:
    with RunWriter(tmp_path / "runs", node="n1", header={}) as writer:
        for record in records:
            writer.write(record)
    out = tmp_path / "new" / "report.html"
    write_report(tmp_path / "runs", out, tuned=None, node="", warn=lambda _: None)
    assert out.read_text().endswith("</html>\n") or out.read_text().rstrip().endswith("</html>")
    assert list(out.parent.iterdir()) == [out]
