"""Imports from Python: a date that cannot be read, and files without a row."""

from pathlib import Path

import pytest
from mi300bench.api.importing import import_logs, require_rows
from mi300bench.errors import PlanError, RecordError
from mi300bench.measurement.settings import Settings


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "rccl.txt"
    path.write_text(
        "# nThread 1 nGpus 8\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
        "        1024           256     float     sum      -1    10.0    0.10    0.18      0\n"
    )
    return path


def test_a_date_that_cannot_be_read_is_refused(log: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="'soon'"):
        import_logs([log], Settings(store=tmp_path / "runs"), date="soon")
    assert not (tmp_path / "runs").exists()


def test_a_check_writes_nothing_and_names_a_file_without_a_row(log: Path, tmp_path: Path) -> None:
    settings = Settings(store=tmp_path / "runs")
    files = import_logs([log], settings, kind="rccl", is_check=True)
    require_rows(files)
    assert not settings.store.exists()
    log.write_text("no table here\n")
    with pytest.raises(RecordError, match=r"rccl\.txt"):
        require_rows(import_logs([log], settings, kind="rccl", is_check=True))
