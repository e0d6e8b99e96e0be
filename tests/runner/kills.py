"""Kill a sweep's worker at random moments, then resume: ``python -m tests.runner.kills [COUNT]``

Each kill may cost the point in flight, which is recorded as failed; a resumed sweep measures those
points only. The moments are drawn beforehand, with a fixed seed.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mi300bench.schema.record import Measurement, Outcome
from mi300bench.store.reader import read_records

SEED = 20_261_130
POINTS = 60
SWEEP = """
[sweep]
question = "Which records survive {kills} kills?"
[[probe]]
name = "memory.copy"
axes.bytes = [{sizes}]
params = {{ dtype = "float32", variant = "op" }}
stop = {{ max_seconds = {seconds:g}, relative_ci = 0.0, warmup_seconds = 0.05 }}
"""


def worker_of(session: int) -> int | None:
    """Return the process id of the session's worker; None if it has none at the moment."""
    try:
        children = Path(f"/proc/{session}/task/{session}/children").read_text().split()
        return next(
            (
                int(c)
                for c in children
                if b"runner.worker" in Path(f"/proc/{c}/cmdline").read_bytes()
            ),
            None,
        )
    except OSError:
        return None


def command(folder: Path, *options: str) -> list[str]:
    """Return the command that runs the sweep."""
    sweep = [sys.executable, "-m", "mi300bench", "sweep", "run", str(folder / "kills.toml")]
    place = ["--store", str(folder / "runs"), "--node", "n1"]
    return [*sweep, "--device", "cpu", "--passes", "1", *place, *options]


def kill_at_random(session: "subprocess.Popen[bytes]", kills: int) -> int:
    """Kill the session's worker up to `kills` times at seeded moments; return how many times."""
    draw = random.Random(SEED)
    waits = [draw.uniform(0.05, 2.5) for _ in range(kills)]
    done = 0
    for wait in waits:
        time.sleep(wait)
        victim = worker_of(session.pid)
        while victim is None and session.poll() is None:
            time.sleep(0.02)
            victim = worker_of(session.pid)
        if session.poll() is not None:
            break
        os.kill(victim, signal.SIGKILL)
        done += 1
        while worker_of(session.pid) == victim and session.poll() is None:
            time.sleep(0.02)
    return done


def study(
    folder: Path, kills: int, points: int = POINTS
) -> tuple[int, list[Measurement], int, int]:
    """Return the kills, the records of the sweep, and the new records and exit code of --resume."""
    sizes = ", ".join(str(4096 * (index + 1)) for index in range(points))
    seconds = 0.25 + 0.025 * kills
    (folder / "kills.toml").write_text(SWEEP.format(kills=kills, sizes=sizes, seconds=seconds))
    session = subprocess.Popen(
        command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    done = kill_at_random(session, kills)
    session.wait(timeout=600)
    first = list(read_records(folder / "runs"))
    status = subprocess.run(
        command(folder, "--resume"), capture_output=True, check=False, timeout=600
    ).returncode
    return done, first, len(read_records(folder / "runs")) - len(first), status


def main(arguments: list[str]) -> int:
    """Print the figures; return 0 if each kill cost at most a point, which --resume measured."""
    with tempfile.TemporaryDirectory() as name:
        done, first, added, status = study(Path(name), int(arguments[0]) if arguments else 20)
    failed = sum(record.outcome is Outcome.FAILED for record in first)
    figures = f"{done} kills, {len(first)} of {POINTS} points recorded, {failed} failed"
    print(f"{figures}; resumed: {added} measured, exit {status}")  # noqa: T201 - a program
    return 0 if len(first) == POINTS and failed <= done and added == failed and status == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
