"""Whole runs through the command line: in a process of their own, or in this one."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from mi300bench.cli import main

TIMEOUT_S = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command returned and printed."""

    code: int
    out: str
    err: str

    @property
    def record(self) -> dict:
        """Return the record that ``--json`` printed."""
        assert self.code == 0, self.err
        return json.loads(self.out.strip().splitlines()[-1])


def call(*arguments: object) -> Answer:
    """Run ``mi300bench`` in this process, which has imported the frameworks already."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["mi300bench", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    return Answer(code=code, out=out.getvalue(), err=err.getvalue())


def start(
    folder: Path,
    *arguments: object,
    launcher: tuple[str, ...] = (),
    environment: Mapping[str, str] = os.environ,
) -> subprocess.Popen[str]:
    """Start ``mi300bench`` as a separate process in a folder."""
    return subprocess.Popen(
        [sys.executable, *launcher, "-m", "mi300bench", *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait(process: subprocess.Popen[str]) -> Answer:
    """Return the answer of a process at its end."""
    out, err = process.communicate(timeout=TIMEOUT_S)
    return Answer(code=process.returncode, out=out, err=err)


def signal_at(
    step: int,
    number: signal.Signals,
    shown_by: subprocess.Popen[str],
    to: subprocess.Popen[str] | None = None,
) -> None:
    """Send a signal to a process (default: the one that shows it) when a step is shown."""
    assert shown_by.stderr is not None
    for line in shown_by.stderr:
        if line.startswith(f"step {step:>5}"):
            (to or shown_by).send_signal(number)
            return
