import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mi300bench.errors import NodeError, PlanError, RecordError
from mi300bench.schema.record import Outcome
from mi300bench.store.query import query
from mi300bench.store.reader import read_records, read_run, run_paths
from mi300bench.store.select import require_comparable, select
from mi300bench.store.writer import RunWriter


def write_run(store: Path, *records, finish: bool = True) -> Path:
    with RunWriter(store, node="n1", header={"plan": "p"}) as writer:
        for record in records:
            writer.write(record)
        if finish:
            writer.finish()
    return writer.path


def test_a_written_run_is_read_back(tmp_path: Path, make_record) -> None:
    record = make_record()
    path = write_run(tmp_path, record)
    run = read_run(path)
    assert run.records == (record,) and run.finished and not run.torn and run.header["plan"] == "p"


def test_merging_stores_is_copying_folders(tmp_path: Path, make_record) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    write_run(one, make_record())
    path = write_run(other, make_record(node="n2"))
    (one / "n2").mkdir()
    (one / "n2" / path.name).write_bytes(path.read_bytes())
    assert {record.node for record in read_records(one)} == {"n1", "n2"}


def test_a_torn_last_line_is_reported_and_skipped(tmp_path: Path, make_record) -> None:
    path = write_run(tmp_path, make_record(), make_record(params={"bytes": 2}), finish=False)
    path.write_bytes(path.read_bytes()[:-40])
    warnings: list[str] = []
    assert len(read_records(tmp_path, warn=warnings.append)) == 1
    assert len(warnings) == 1 and str(path) in warnings[0] and read_run(path).torn


def test_a_resumed_run_drops_the_torn_line_and_goes_on(tmp_path: Path, make_record) -> None:
    path = write_run(tmp_path, make_record(), make_record(params={"bytes": 2}), finish=False)
    path.write_bytes(path.read_bytes()[:-40])
    with RunWriter(tmp_path, node="n1", header={}, path=path) as writer:
        writer.write(make_record(params={"bytes": 3}))
    run = read_run(path)
    assert [record.params["bytes"] for record in run.records] == [1024, 3] and not run.torn


def test_damage_in_the_middle_names_file_and_line(tmp_path: Path, make_record) -> None:
    path = write_run(tmp_path, make_record())
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"{broken\n" + lines[1])
    with pytest.raises(RecordError, match=rf"{path.name}:2"):
        read_records(tmp_path)


def test_a_full_disk_keeps_all_lines_and_rescues_the_one_in_flight(
    tmp_path: Path, make_record, monkeypatch
) -> None:
    rescue = tmp_path / "rescue"
    rescue.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(rescue))
    with RunWriter(tmp_path / "store", node="n1", header={}) as writer:
        writer.write(make_record())
        size = writer.path.stat().st_size
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))
        try:
            with pytest.raises(NodeError, match=writer.path.name) as caught:
                writer.write(make_record(params={"bytes": 2}))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    run = read_run(writer.path)
    assert len(run.records) == 1 and not run.torn
    assert "--resume" in caught.value.hint and "ulimit -f" in caught.value.hint
    (rescued,) = rescue.iterdir()
    assert str(rescued) in caught.value.hint and '"bytes":2}' in rescued.read_text()


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(NodeError, match=str(tmp_path)):
        RunWriter(tmp_path, node="n1", header={})


def test_a_store_that_is_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises(NodeError, match=str(tmp_path / "store")):
        RunWriter(tmp_path / "store", node="n1", header={})


def test_a_kill_leaves_every_finished_record(tmp_path: Path) -> None:
    code = (
        "import sys, os, signal; sys.path.insert(0, '.')\n"
        "from pathlib import Path\n"
        "from mi300bench.store.writer import RunWriter\n"
        "from mi300bench.schema.record import Measurement, Outcome\n"
        f"writer = RunWriter(Path({str(tmp_path)!r}), node='n', header={{}})\n"
        "for i in range(3):\n"
        "    writer.write(Measurement(probe='p', method=1, params={'i': i},\n"
        "                             outcome=Outcome.OK, samples=(1.0,)))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert len(read_records(tmp_path)) == 3


def test_sql_has_medians_rates_and_parameters(tmp_path: Path, make_record) -> None:
    from mi300bench.schema.record import Work

    records = [
        make_record(samples=(0.5,) * 5, work=Work(bytes_read=100)),
        make_record(outcome=Outcome.FAILED, reason="it's dead"),
    ]
    rows = query(
        records,
        "SELECT seconds, bandwidth, params->>'bytes' AS b, reason FROM records "
        "ORDER BY outcome DESC",
    )
    assert rows[0]["seconds"] == 0.5 and rows[0]["bandwidth"] == 200 and rows[0]["b"] == "1024"
    assert rows[1]["seconds"] is None and rows[1]["reason"] == "it's dead"


def test_invalid_sql_is_an_error_that_lists_the_columns(make_record) -> None:
    with pytest.raises(PlanError) as caught:
        query([make_record()], "SELECT colour FROM records")
    assert "bandwidth" in caught.value.hint


def test_records_of_two_devices_do_not_compare(make_record) -> None:
    with pytest.raises(RecordError, match=r"device: .*'another'"):
        require_comparable([make_record(), make_record(device="another")], what="a curve")


def test_select_omits_records_without_a_speed(make_record) -> None:
    ok, failed = make_record(), make_record(outcome=Outcome.FAILED, reason="x")
    assert select([ok, failed], "memory.copy", bytes=1024) == (ok,)
    assert select([ok], "memory.copy", bytes=1) == ()


def test_a_missing_store_is_a_record_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="nowhere"):
        read_records(tmp_path / "nowhere")
    assert run_paths(tmp_path) == []
