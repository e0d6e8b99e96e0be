"""Files into the store: their records keep source and date, feed a fit and are linted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from mi300bench.errors import PlanError, RecordError
from mi300bench.fit.link import fit_link
from mi300bench.ingest.reading import date_of
from mi300bench.ingest.store_files import Imported, import_files, kind_of, read_file, record_of
from mi300bench.lint.finding import LintVerdict
from mi300bench.lint.judge import judge, worst
from mi300bench.lint.sources import claims_of
from mi300bench.measurement.settings import Settings
from mi300bench.schema.record import Origin, Outcome
from mi300bench.store.reader import read_records
from mi300bench.store.select import by_point

from tests.ingest.sample_files import FORMAT_OF, SAMPLES, sample


def stored(store: Path, *paths: Path, device: str = "", began: str = "") -> tuple[Imported, ...]:
    """Import files into `store` as node n7."""
    settings = Settings(store=store, node="n7")
    return import_files(
        paths, settings, kind="auto", device=device, is_check=False, began=date_of(began)
    )


def test_imported_records_keep_their_origin(tmp_path: Path) -> None:
    stored(tmp_path, SAMPLES / "rccl_all_reduce.txt")
    records = read_records(tmp_path)
    assert len(records) == 8
    for record in records:
        assert record.origin is Origin.IMPORTED and record.node == "n7"
        assert record.source == "rccl-tests: rccl_all_reduce.txt"
        assert record.device == "AMD Instinct MI300X"
        assert (record.world.device, record.world.ranks) == ("rocm", 8)


def test_imported_records_feed_a_fit_and_are_linted(tmp_path: Path) -> None:
    stored(tmp_path, SAMPLES / "rccl_all_reduce.txt")
    records = [r for r in read_records(tmp_path) if not r.params.get("in_place")]
    link = fit_link(list(by_point(records).values()))
    assert link.bandwidth == pytest.approx(178.8e9, rel=0.02)
    assert set(link.evidence) <= {record.id for record in records}
    assert worst(judge(claims_of(records))) is LintVerdict.SOUND


@pytest.mark.parametrize(
    "name", [name for name in FORMAT_OF if name not in ("rocm_smi.csv", "rccl.json")]
)
def test_the_linter_finds_nothing_wrong_with_any_sample(tmp_path: Path, name: str) -> None:
    """The figures that a tool prints agree with its times, so a wrong one is an error of a file."""
    stored(tmp_path, SAMPLES / name)
    findings = judge(claims_of(read_records(tmp_path)))
    assert not [f for f in findings if f.verdict is LintVerdict.WRONG]
    if name != "pytest_benchmark.json":  # it has only times, so there is nothing to compare
        assert [f for f in findings if f.verdict is LintVerdict.SOUND]


@pytest.mark.parametrize("factor", [8.0, 1000.0, 1 / 1000])
@pytest.mark.parametrize(
    "name", [name for name in FORMAT_OF if name not in ("rocm_smi.csv", "pytest_benchmark.json")]
)
def test_the_linter_finds_figures_in_another_unit(tmp_path: Path, name: str, factor: float) -> None:
    reading = sample(name)
    records = []
    for place, row in enumerate(reading.rows):
        stated = {key: tuple(factor * v for v in values) for key, values in row.stated.items()}
        record = record_of(
            replace(row, stated=stated),
            reading,
            path=SAMPLES / name,
            run="r",
            settings=Settings(store=tmp_path, node="n"),
            device="",
            began="",
            place=place,
        )
        records.append(record)
    wrong = {f.claim for f in judge(claims_of(records)) if f.verdict is LintVerdict.WRONG}
    assert wrong == {record.id for record in records if record.outcome is Outcome.OK} != set()


def test_a_wrong_answer_and_a_series_have_no_speed(tmp_path: Path) -> None:
    stored(tmp_path, SAMPLES / "rccl.json", SAMPLES / "rocm_smi.csv", device="MI300X")
    outcomes = {(record.probe, record.outcome) for record in read_records(tmp_path)}
    assert ("collective.reduce_scatter", Outcome.WRONG_ANSWER) in outcomes
    assert ("telemetry", Outcome.SKIPPED) in outcomes


@pytest.mark.parametrize(
    ("device", "tool", "kind"),
    [
        ("NVIDIA L40S", "rccl-tests", "cuda"),
        ("AMD Instinct MI308X", "BabelStream", "rocm"),
        ("", "hipblaslt-bench", "rocm"),
        ("MI300X", "", "rocm"),
        ("H200", "", "cuda"),
        ("AMD EPYC 9654", "BabelStream", "cpu"),
    ],
)
def test_a_device_without_facts_has_the_kind_of_its_maker(
    device: str, tool: str, kind: str
) -> None:
    assert kind_of(device, tool) == kind


def test_a_file_that_is_in_the_store_adds_nothing(tmp_path: Path) -> None:
    stored(tmp_path, SAMPLES / "rccl_all_reduce.txt")
    (second,) = stored(tmp_path, SAMPLES / "rccl_all_reduce.txt")
    assert second.earlier and not second.records and len(read_records(tmp_path)) == 8


def test_the_same_file_for_another_device_is_another_import(tmp_path: Path) -> None:
    stored(tmp_path, SAMPLES / "rccl_all_reduce.txt")
    (other,) = stored(tmp_path, SAMPLES / "rccl_all_reduce.txt", device="MI325X")
    assert len(other.records) == 8 and len(read_records(tmp_path)) == 16


def test_an_interrupted_import_is_replaced(tmp_path: Path) -> None:
    stored(tmp_path, SAMPLES / "rccl_all_reduce.txt")
    (run,) = (tmp_path / "n7").glob("*.jsonl")
    run.write_text("\n".join(run.read_text().split("\n")[:4]) + "\n")
    (second,) = stored(tmp_path, SAMPLES / "rccl_all_reduce.txt")
    assert len(second.records) == 8 and not second.earlier
    assert len(read_records(tmp_path)) == 8


def test_a_record_has_the_date_of_its_run_and_not_of_its_import(tmp_path: Path) -> None:
    stored(tmp_path, SAMPLES / "mamf.txt")
    stored(tmp_path, SAMPLES / "babelstream.txt", began="2026-10-05")
    dates = {record.source: record.started_at for record in read_records(tmp_path)}
    assert dates == {
        "mamf-finder: mamf.txt": "",
        "BabelStream: babelstream.txt": "2026-10-05T00:00:00.000+00:00",
    }


def test_a_bad_file_does_not_stop_the_others(tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("nothing of any tool")
    with pytest.raises(RecordError):
        stored(tmp_path / "s", bad, SAMPLES / "mamf.txt")
    assert len(read_records(tmp_path / "s")) == 3


def test_a_missing_file_is_an_error_of_the_request(tmp_path: Path) -> None:
    with pytest.raises(PlanError):
        read_file(tmp_path / "none", kind="auto")


def test_lone_surrogates_of_json_are_replaced(tmp_path: Path) -> None:
    document = {
        "machine_info": {"cpu": {"brand_raw": "x\ud800"}},
        "benchmarks": [{"name": "a\udfff", "stats": {"median": 0.1}}],
    }
    path = tmp_path / "b.json"
    path.write_text(json.dumps(document))
    stored(tmp_path / "s", path)
    (record,) = read_records(tmp_path / "s")
    assert record.params["name"] == "a?" and record.device == "x?"
