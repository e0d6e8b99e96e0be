"""Logs of other tools into a store, each row as a record of origin imported."""

from collections.abc import Sequence
from pathlib import Path

from mi300bench.errors import PlanError, RecordError
from mi300bench.ingest.formats import FORMATS
from mi300bench.ingest.reading import date_of
from mi300bench.ingest.store_files import Imported, import_files
from mi300bench.measurement.settings import Settings

__all__ = ["FORMATS", "Imported", "import_logs", "require_rows"]


def import_logs(
    paths: Sequence[Path],
    settings: Settings,
    *,
    kind: str = "auto",
    device: str = "",
    date: str = "",
    is_check: bool = False,
) -> tuple[Imported, ...]:
    """Read the files and, unless `is_check`, write their rows into the store.

    kind    the tool that wrote them (one of `FORMATS`), or ``auto``
    device  the device and `date` the time of the run, for files that do not have them
    """
    began = date_of(date)
    if date and not began:
        raise PlanError(
            f"cannot read --date {date!r} as a date",
            hint="write --date 2026-10-05 or --date 2026-10-05T14:30",
        )
    return import_files(paths, settings, kind=kind, device=device, began=began, is_check=is_check)


def require_rows(files: Sequence[Imported]) -> None:
    """Raise `RecordError` if a file has no row that could be read."""
    empty = [str(each.path) for each in files if not each.reading.rows]
    if empty:
        raise RecordError(
            f"no row could be read in {', '.join(empty)}",
            hint="see the reasons above, or name the tool with --format",
        )
