"""Writing a run. Each record is on disk before the next point starts.

If a line cannot be written to the store, it is written to a rescue file in the temporary folder,
and the error names this file.
"""

import errno
import json
import os
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mi300bench.errors import NodeError
from mi300bench.schema.codec import encode
from mi300bench.schema.record import Measurement, short_hash

_CAUSES = {
    errno.ENOSPC: ("the disk is full", "free space"),
    errno.EDQUOT: ("the quota is used up", "free space"),
    errno.EFBIG: ("the file has reached the size limit", "raise ulimit -f"),
    errno.EROFS: ("the file system is read-only", "choose a folder that can be written"),
    errno.EACCES: ("permission is denied", "choose a folder that can be written"),
}


def new_run_id() -> str:
    """Return a run id that sorts by time and is unique on a machine."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}-{short_hash([now.isoformat(), os.getpid()], 6)}"


def _explain(path: Path, cause: OSError) -> tuple[str, str]:
    reason, step = _CAUSES.get(cause.errno or 0, (cause.strerror or str(cause), "check the folder"))
    return f"{path} cannot be written: {reason}", f"{step}, or give another --store"


class RunWriter:
    """Appends to `<store>/<node>/<run id>.jsonl`. Raises `NodeError` if that fails."""

    def __init__(
        self, store: Path, *, node: str, header: Mapping[str, Any], path: Path | None = None
    ) -> None:
        self.run_id = path.stem if path is not None else new_run_id()
        self.path = path if path is not None else store / node / f"{self.run_id}.jsonl"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab", buffering=0)
        except OSError as cause:
            message, hint = _explain(self.path, cause)
            raise NodeError(message, hint=hint) from cause
        if path is not None:
            self._drop_torn_line()
        else:
            self._append({"line": "run", "run": self.run_id, "node": node, **header})

    def _drop_torn_line(self) -> None:
        data = self.path.read_bytes()
        os.ftruncate(self._file.fileno(), data.rfind(b"\n") + 1)

    def write(self, record: Measurement) -> None:
        """Write one record to disk."""
        self._append({"line": "record", **encode(record)})

    def finish(self, **facts: Any) -> None:
        """Mark the run as complete."""
        self._append(
            {"line": "end", "at": datetime.now(UTC).isoformat(timespec="seconds"), **facts}
        )

    def close(self) -> None:
        """Close the file; an unfinished run can be resumed."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _append(self, document: Mapping[str, Any]) -> None:
        data = json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        size_before = os.fstat(self._file.fileno()).st_size
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:]) or 0
            os.fsync(self._file.fileno())
        except OSError as cause:
            message, hint = _explain(self.path, cause)
            os.ftruncate(self._file.fileno(), size_before)
            raise NodeError(
                message, hint=f"{_rescue(self.run_id, data)}; {hint}, then --resume"
            ) from cause


def _rescue(run_id: str, data: bytes) -> str:
    """Write a line to the temporary folder; return a text that says where it is."""
    path = Path(tempfile.gettempdir()) / f"mi300bench-{run_id}-rescued.jsonl"
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError:
        return f"the last record was not saved to {path} either; it is {data.decode().strip()}"
    return f"the last record is in {path} (append it to the run file to keep it)"
