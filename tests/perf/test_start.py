"""How long a person waits for ``mi300bench --help``, beside Python with click alone."""

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

HELP = (str(Path(sys.executable).with_name("mi300bench")), "--help")
CLICK = (sys.executable, "-c", "import click")
PAIRS = 9
MOST = 1.5


def run(command: Sequence[str]) -> None:
    subprocess.run(command, capture_output=True, check=True)


def seconds_of(command: Sequence[str]) -> float:
    start = time.perf_counter()
    run(command)
    return time.perf_counter() - start


@pytest.mark.benchmark(group="start")
def test_help(benchmark) -> None:
    benchmark.pedantic(run, args=(HELP,), rounds=PAIRS, warmup_rounds=1)


@pytest.mark.benchmark(group="start")
def test_importing_click_alone(benchmark) -> None:
    benchmark.pedantic(run, args=(CLICK,), rounds=PAIRS, warmup_rounds=1)


def test_help_takes_at_most_half_as_long_again_as_importing_click(capsys) -> None:
    """Pairs are interleaved, and each is a ratio, so what else the machine does hits both sides."""
    for command in (HELP, CLICK):  # what is read first comes from the disk
        run(command)
    ratios = []
    for pair in range(PAIRS):
        first, second = (HELP, CLICK) if pair % 2 == 0 else (CLICK, HELP)
        took = {command: seconds_of(command) for command in (first, second)}
        ratios.append(took[HELP] / took[CLICK])
    ratio = statistics.median(ratios)
    with capsys.disabled():
        sys.stdout.write(f"\n--help takes {ratio:.2f} of importing click ({PAIRS} pairs)\n")
    assert ratio <= MOST
