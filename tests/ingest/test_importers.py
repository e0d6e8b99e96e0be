"""Sample outputs, rebuilt from the tools' own sources and documentation, with values that were worked out by hand."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mi300bench.errors import PlanError, RecordError
from mi300bench.fit.link import fit_link
from mi300bench.ingest.formats import FORMATS, read
from mi300bench.ingest.reading import LogReading, cells, date_of, number
from mi300bench.ingest.store_files import import_files, kind_of, read_file, record_of
from mi300bench.lint.judge import judge, worst
from mi300bench.lint.sources import claims_of
from mi300bench.measurement.settings import Settings
from mi300bench.schema.finding import LintVerdict
from mi300bench.schema.record import Origin, Outcome
from mi300bench.store.reader import read_records
from mi300bench.store.select import by_point

SAMPLES = Path(__file__).parent / "samples"
FORMAT_OF = {
    "rccl_all_reduce.txt": "rccl", "rccl_messy.txt": "rccl", "nccl_old.txt": "rccl", "nccl.json": "rccl-json",
    "rccl.json": "rccl-json", "rccl.csv": "rccl-csv", "babelstream.txt": "babelstream", "babelstream.csv": "babelstream",
    "hipblaslt.txt": "hipblaslt", "mamf.txt": "mamf", "transferbench.csv": "transferbench",
    "pytest_benchmark.json": "pytest-benchmark", "rocm_smi.csv": "rocm-smi",
}  # fmt: skip


def sample(name: str) -> LogReading:
    return read_file(SAMPLES / name, kind="auto")


@pytest.mark.parametrize(("name", "kind"), FORMAT_OF.items())
def test_every_format_is_told_from_the_others(name: str, kind: str) -> None:
    text = (SAMPLES / name).read_text()
    assert next(key for key, known in FORMATS.items() if known.is_it(text)) == kind
    assert sample(name).rows


def test_the_table_of_rccl_tests() -> None:
    reading = sample("rccl_all_reduce.txt")
    assert (
        len(reading.rows) == 8 and not reading.skipped and reading.device == "AMD Instinct MI300X"
    )
    first, inside = reading.rows[:2]
    assert (
        first.probe == "collective.all_reduce"
        and first.params == {"bytes": 2**20, "dtype": "float32"}
        and first.ranks == 8
    )
    assert (
        first.seconds == pytest.approx((52.31e-6,))
        and first.stated["stated_busbw"] == (35.08e9,)
        and first.work.message_bytes == 2**20
    )
    assert inside.params["in_place"] is True and inside.seconds == pytest.approx((51.98e-6,))
    assert reading.rows[6].seconds == pytest.approx((24021e-6,)) and reading.rows[6].stated[
        "stated_algbw"
    ] == (178.80e9,)


def test_a_log_as_logs_come() -> None:
    """Labels, colours, another stream's messages, a row that one broke, another rank's copy, a locale's commas, an end cut off."""
    clean, messy = sample("rccl_all_reduce.txt"), sample("rccl_messy.txt")
    seen = [
        (row.params["bytes"], row.params.get("in_place", False), row.seconds) for row in messy.rows
    ]
    assert seen == [
        (row.params["bytes"], row.params.get("in_place", False), row.seconds)
        for row in clean.rows[:6]
    ]
    assert messy.rows[0].ranks == 8 and "not told" in str(messy.conditions["operation"])
    whys = " ".join(s.why for s in messy.skipped)
    assert "another rank" in whys and "cut off" in whys and len(messy.skipped) == 2


def test_a_number_where_a_file_was_cut_off_is_not_taken() -> None:
    text = (SAMPLES / "rccl_all_reduce.txt").read_text()
    row = text.index("  4294967296")
    cut = read(text[: row + 100], kind="rccl", name="x")  # within the in-place time
    assert [r.params.get("in_place", False) for r in cut.rows if r.params["bytes"] == 2**32] == [
        False
    ]
    shorter = read(text[: text.index("178.80") + 4], kind="rccl", name="x")
    assert all(r.params["bytes"] != 2**32 for r in shorter.rows) and shorter.skipped


def test_older_columns_and_other_documents() -> None:
    old = sample("nccl_old.txt")
    assert [row.probe for row in old.rows] == ["collective.all_gather"] * 4 and old.rows[
        0
    ].ranks == 2
    assert old.rows[2].seconds == pytest.approx((92.40e-6,)) and old.rows[2].stated[
        "stated_busbw"
    ] == (90.79e9,)
    document = sample("nccl.json")
    assert (
        len(document.rows) == 8 and document.rows[0].ranks == 8 and document.device == "NVIDIA H200"
    )
    assert document.conditions["nccl_version"] == "22707" and document.rows[
        0
    ].seconds == pytest.approx((52.31e-6,))
    records = sample("rccl.json").rows
    assert (
        records[0].probe == "collective.reduce_scatter"
        and records[0].ranks == 16
        and records[0].params["dtype"] == "bfloat16"
    )
    assert (
        records[0].seconds == pytest.approx((3301.5e-6,)) and records[2].wrong == "3 wrong elements"
    )
    table = sample("rccl.csv").rows  # a header without `nodes`, rows with it
    assert (
        table[0].ranks == 16
        and table[0].seconds == pytest.approx((3150.25e-6,))
        and table[1].params["in_place"] is True
    )


def test_babelstream_in_both_of_its_units() -> None:
    text = sample("babelstream.txt")
    copy, scale, add = text.rows[:3]
    assert (
        copy.params == {"bytes": 268435456 * 8, "dtype": "float64", "variant": "babelstream"}
        and scale.probe == "memory.scale"
    )
    assert copy.work.bytes_read == copy.work.bytes_written == 2**31 and add.work.bytes_read == 2**32
    assert copy.stated["stated_best"] == (4177283.271e6,) and copy.seconds == (0.00104,)
    table = sample("babelstream.csv")
    assert [row.probe for row in table.rows] == ["memory.copy", "memory.triad"]
    assert table.rows[0].stated["stated_best"][0] == pytest.approx(24417.4 * 2**20)
    assert [s.why[:7] for s in table.skipped] == ["Nstream", "6 colum"]


def test_products_of_hipblaslt_and_mamf() -> None:
    reading = sample("hipblaslt.txt")
    large, batched = reading.rows
    assert large.params == {"m": 4096, "n": 4864, "k": 32896, "layout": "tn", "dtype": "bfloat16"}
    assert large.work.flop / large.seconds[0] == pytest.approx(
        707912e9, rel=1e-4
    )  # agrees with what it prints
    assert batched.params["batch"] == 4 and batched.work.flop == 4 * 2 * 896**3
    assert {s.why[:9] for s in reading.skipped} == {"a grouped", "6 columns"}
    tries = sample("mamf.txt")
    assert [row.params["m"] for row in tries.rows] == [
        4096,
        10240,
        2048,
    ] and tries.device == "AMD Instinct MI300X"
    best = tries.rows[1]
    assert (
        best.seconds[0] == pytest.approx(2 * 10240 * 15360 * 8192 / 669.9e12)
        and best.params["dtype"] == "bfloat16"
    )


def test_transfers_benchmarks_and_telemetry() -> None:
    transfers = sample("transferbench.csv")
    assert (
        len(transfers.rows) == 3
        and transfers.rows[0].params["dst"] == "G1"
        and transfers.rows[0].seconds == (1.424e-3,)
    )
    assert [s.why[:5] for s in transfers.skipped] == ["a sum", "5 col"]
    benchmarks = sample("pytest_benchmark.json")
    assert benchmarks.rows[0].seconds == (0.0101, 0.0107, 0.0122) and benchmarks.rows[
        1
    ].seconds == (0.0024,)
    cards = sample("rocm_smi.csv").rows
    assert cards[0].stated["memory_used_bytes"] == (297795584, 158729355264) and cards[1].stated[
        "gpu_use_percent"
    ] == (97, 18)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("27.12", 27.12), ("27,12", 27.12), ("1,048,576", 1048576.0), ("1,048,576.5", 1048576.5), ("0*", 0.0), ("nan", None),
        ("1e999", None), ("", None), ("1,2,3", None),
    ],
)  # fmt: skip
def test_numbers_are_read_as_locales_print_them(text: str, value: float | None) -> None:
    assert number(text) == value


def test_what_is_imported_keeps_its_origin_feeds_a_fit_and_is_linted(tmp_path: Path) -> None:
    path, told = SAMPLES / "rccl_all_reduce.txt", Settings(store=tmp_path, node="n7")
    done = import_files([path], told, kind="auto", device="", is_check=False)
    records = [r for r in read_records(tmp_path) if not r.params.get("in_place")]
    assert len(records) == 4 and all(
        r.origin is Origin.IMPORTED and r.source == "rccl-tests: rccl_all_reduce.txt"
        for r in records
    )
    assert (
        records[0].device == "AMD Instinct MI300X"
        and records[0].world.device == "rocm"
        and records[0].world.ranks == 8
    )
    link = fit_link(list(by_point(records).values()))
    assert link.bandwidth == pytest.approx(178.8e9, rel=0.02) and set(link.evidence) <= {
        r.id for r in done[0].records
    }
    findings = judge(claims_of(records))
    assert worst(findings) is LintVerdict.SOUND and {"size over time is bandwidth"} <= {
        f.rule for f in findings
    }
    # The same file again adds nothing.
    import_files([path], told, kind="auto", device="", is_check=False)
    assert len(list(read_records(tmp_path))) == 8


@pytest.mark.parametrize(
    "name", [name for name in FORMAT_OF if name not in ("rocm_smi.csv", "rccl.json")]
)
def test_the_linter_finds_nothing_wrong_with_any_sample(tmp_path: Path, name: str) -> None:
    """What a tool prints beside its times agrees with them, so that what stands out in a real file is the file's."""
    import_files(
        [SAMPLES / name], Settings(store=tmp_path, node="n"), kind="auto", device="", is_check=False
    )
    findings = judge(claims_of(read_records(tmp_path)))
    assert not [f for f in findings if f.verdict is LintVerdict.WRONG]
    if name != "pytest_benchmark.json":  # which states times alone
        assert [f for f in findings if f.verdict is LintVerdict.SOUND]


def scaled(reading: LogReading, factor: float) -> LogReading:
    """The same rows with every stated bandwidth and rate off by a factor."""
    reading.rows = [
        replace(
            row,
            stated={name: tuple(factor * v for v in values) for name, values in row.stated.items()},
        )
        for row in reading.rows
    ]
    return reading


@pytest.mark.parametrize("factor", [8.0, 1000.0, 1 / 1000])
@pytest.mark.parametrize(
    "name", [name for name in FORMAT_OF if name not in ("rocm_smi.csv", "pytest_benchmark.json")]
)
def test_the_linter_finds_figures_that_a_tool_would_print_in_another_unit(
    tmp_path: Path, name: str, factor: float
) -> None:
    reading, told = scaled(sample(name), factor), Settings(store=tmp_path, node="n")
    records = [
        record_of(
            row,
            reading,
            path=SAMPLES / name,
            run="r",
            settings=told,
            device="",
            began="",
            place=place,
        )
        for place, row in enumerate(reading.rows)
    ]
    judged = {f.claim for f in judge(claims_of(records)) if f.verdict is LintVerdict.WRONG}
    good = [record for record in records if record.outcome is Outcome.OK]
    assert len(judged) == len(good) > 0


def test_a_wrong_answer_and_a_series_have_no_speed(tmp_path: Path) -> None:
    paths = [SAMPLES / "rccl.json", SAMPLES / "rocm_smi.csv"]
    import_files(
        paths, Settings(store=tmp_path, node="n"), kind="auto", device="MI300X", is_check=False
    )
    outcomes = {(r.probe, r.outcome) for r in read_records(tmp_path)}
    assert ("collective.reduce_scatter", Outcome.WRONG_ANSWER) in outcomes and (
        "telemetry",
        Outcome.SKIPPED,
    ) in outcomes


def test_the_command_checks_imports_and_names_what_it_cannot(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "mi300bench",
            "import",
            *arguments,
            "--store",
            str(tmp_path / "runs"),
        ]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    checked = run("--check", str(SAMPLES / "rccl_messy.txt"))
    assert (
        checked.returncode == 0
        and "line 19 not read" in checked.stdout
        and not (tmp_path / "runs").exists()
    )
    told = json.loads(run("--json", str(SAMPLES / "mamf.txt")).stdout)
    assert told[0]["read"] == 3 and len(told[0]["records"]) == 3
    empty = tmp_path / "empty.txt"
    empty.write_text("nothing of any tool")
    for arguments, code, said in (
        ([str(empty)], 4, "no format"),
        ([str(tmp_path / "none")], 2, "does not exist"),
    ):
        answer = run(*arguments)
        assert (
            answer.returncode == code and said in answer.stderr and "Traceback" not in answer.stderr
        )
    with pytest.raises(RecordError):
        read("x", kind="auto", name="x")
    with pytest.raises(PlanError):
        read("x", kind="magic", name="x")


@pytest.mark.parametrize(("name", "kind"), FORMAT_OF.items())
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_read_without_a_trace(name: str, kind: str, data: st.DataObject) -> None:
    text = (SAMPLES / name).read_text()
    start = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 200))
    middle = data.draw(st.text(max_size=40))
    reading = FORMATS[kind].read(text[:start] + middle + text[start + cut :])
    assert all(row.seconds or row.no_speed for row in reading.rows) and all(
        skipped.why for skipped in reading.skipped
    )


def test_a_log_of_several_tests_is_read_test_by_test() -> None:
    """Each table has the operation of the line that concludes it, and the ranks of the list above it."""
    one = (SAMPLES / "rccl_all_reduce.txt").read_text()
    other = one.replace("all_reduce", "all_gather")
    other = "\n".join(
        line for line in other.split("\n") if not re.match(r"#\s+Rank\s+[4-7]\s", line)
    )
    rows = read(one + other, kind="rccl", name="x").rows
    assert [(row.probe, row.ranks) for row in rows] == [("collective.all_reduce", 8)] * 8 + [
        ("collective.all_gather", 4)
    ] * 8


def test_semicolons_part_cells_whose_commas_are_decimal() -> None:
    assert cells("G0;1,424;12,345") == ["G0", "1.424", "12.345"] and cells('a,"1,424",b') == [
        "a",
        "1,424",
        "b",
    ]


def test_a_line_that_the_file_ends_within_is_not_believed() -> None:
    for name in ("babelstream.csv", "babelstream.txt", "hipblaslt.txt"):
        text = (SAMPLES / name).read_text()
        whole = read(text.rstrip() + "\n", kind="auto", name=name)
        last = max(row.line for row in whole.rows)
        cut = "\n".join(text.split("\n")[:last])[:-1]
        found = read(cut, kind="auto", name=name)
        assert len(found.rows) == len(whole.rows) - 1 and "cut off" in found.skipped[-1].why


def test_samples_of_telemetry_stay_aligned() -> None:
    text = (
        "device,GPU use (%),VRAM Total Used Memory (B)\ncard0,50,100\ncard0,N/A,200\ncard0,70,300\n"
    )
    (row,) = read(text, kind="rocm-smi", name="x").rows
    assert row.stated == {"gpu_use_percent": (50.0, 70.0), "memory_used_bytes": (100.0, 300.0)}


@pytest.mark.parametrize(
    ("device", "tool", "kind"),
    [("NVIDIA L40S", "rccl-tests", "cuda"), ("AMD Instinct MI308X", "BabelStream", "rocm"), ("", "hipblaslt-bench", "rocm"),
     ("MI300X", "", "rocm"), ("H200", "", "cuda"), ("AMD EPYC 9654", "BabelStream", "cpu")],
)  # fmt: skip
def test_a_device_without_facts_is_still_of_its_maker(device: str, tool: str, kind: str) -> None:
    assert kind_of(device, tool) == kind


def test_an_import_that_was_cut_short_is_done_again_and_another_device_is_another_import(
    tmp_path: Path,
) -> None:
    path, told = SAMPLES / "rccl_all_reduce.txt", Settings(store=tmp_path, node="n7")
    import_files([path], told, kind="auto", device="", is_check=False)
    (run,) = (tmp_path / "n7").glob("*.jsonl")
    run.write_text("\n".join(run.read_text().split("\n")[:4]) + "\n")
    (again,) = import_files([path], told, kind="auto", device="", is_check=False)
    assert len(again.records) == 8 and not again.earlier and len(list(read_records(tmp_path))) == 8
    (known,) = import_files([path], told, kind="auto", device="", is_check=False)
    assert known.earlier and not known.records
    (other,) = import_files([path], told, kind="auto", device="MI325X", is_check=False)
    assert len(other.records) == 8


def test_a_record_is_dated_by_the_run_and_not_by_its_import(tmp_path: Path) -> None:
    told = Settings(store=tmp_path, node="n7")
    import_files([SAMPLES / "mamf.txt"], told, kind="auto", device="", is_check=False)
    import_files(
        [SAMPLES / "babelstream.txt"],
        told,
        kind="auto",
        device="",
        began=date_of("2026-10-05"),
        is_check=False,
    )
    dates = {
        record.source.partition(":")[0]: record.started_at for record in read_records(tmp_path)
    }
    assert dates == {"mamf-finder": "", "BabelStream": "2026-10-05T00:00:00.000+00:00"}


def test_one_bad_file_does_not_keep_the_others_out(tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("nothing of any tool")
    with pytest.raises(RecordError):
        import_files(
            [bad, SAMPLES / "mamf.txt"],
            Settings(store=tmp_path / "s", node="n"),
            kind="auto",
            device="",
            is_check=False,
        )
    assert len(list(read_records(tmp_path / "s"))) == 3


def test_halves_of_characters_in_json_are_kept_as_marks(tmp_path: Path) -> None:
    document = {
        "machine_info": {"cpu": {"brand_raw": "x\ud800"}},
        "benchmarks": [{"name": "a\udfff", "stats": {"median": 0.1}}],
    }
    path = tmp_path / "b.json"
    path.write_text(json.dumps(document))
    import_files(
        [path], Settings(store=tmp_path / "s", node="n"), kind="auto", device="", is_check=False
    )
    (record,) = read_records(tmp_path / "s")
    assert record.params["name"] == "a?" and record.device == "x?"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.log.gz", "\x1f\ufffd", "unpack"),
        ("t.txt", "TransferBench v1.5", "OUTPUT_TO_CSV"),
        ("m.txt", "mamf-finder 1", "(mean)"),
    ],
)
def test_a_text_of_no_format_gets_a_hint_that_helps(name: str, text: str, said: str) -> None:
    with pytest.raises(RecordError) as caught:
        read(text, kind="auto", name=name)
    assert said in caught.value.hint
