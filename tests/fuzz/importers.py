"""A million damaged inputs for each import format: no exception, no hang, no row without a time.

    python -m tests.fuzz.importers [--inputs 1000000] [--seed 1] [FORMAT ...]

Inputs are the samples with parts changed, removed, doubled or moved, and with tokens of all formats
inserted. They are drawn by seed, so an input that fails can be repeated. An input that takes over a
second counts as a hang.
"""

import argparse
import random
import signal
import sys
import time
from types import FrameType

from mi300bench.ingest.formats import FORMATS

from tests.ingest.sample_files import FORMAT_OF, SAMPLES

TOKENS = (
    *("\x1b[31m", "\r", "\x00", "\t", "\ufeff", "\u2028", "\\", "'", "e", "--", "%"),
    *("nan", "inf", "-1", "1e400", "9" * 400, "1,048,576", "0", "null"),
    *(",", ";", '"', "{", "[", "]}"),
    "# size count type redop root time algbw busbw #wrong",
    "host:1:2 [0] NCCL INFO x",
    "[1,0]<stdout>:",
    "Test#,Transfer#",
    "hipblaslt-Gflops",
    "device,GPU use (%)",
    "function,num_times,n_elements",
    "(mean)",
    "@ 1x2x3",
)
HANG_S = 1
LARGEST = 1500


def damaged(draw: random.Random, text: str) -> str:
    """Return a damaged part of a text."""
    start = (
        draw.randrange(max(1, len(text) - LARGEST))
        if len(text) > LARGEST and draw.random() < 0.7
        else 0
    )
    part = (
        text[start : start + LARGEST]
        if draw.random() < 0.5
        else text[:300] + text[start : start + LARGEST - 300]
    )
    for _ in range(draw.randint(1, 6)):
        if not part:
            break
        at, length = draw.randrange(len(part)), draw.randint(1, 60)
        what = draw.randrange(6)
        if what == 0:
            part = part[:at] + part[at + length :]
        elif what == 1:
            part = part[:at] + draw.choice(TOKENS) + part[at:]
        elif what == 2:
            part = part[:at] + part[at : at + length] * 2 + part[at + length :]
        elif what == 3:
            part = (
                part[:at]
                + chr(draw.randrange(0x110000 if draw.random() < 0.2 else 128))
                + part[at + 1 :]
            )
        elif what == 4:
            part = part[:at]
        else:
            other = draw.randrange(len(part))
            part = part[:at] + part[other : other + length] + part[at:]
    return part


class Hang(Exception):
    """An input took too long."""


def _alarm(_number: int, _frame: FrameType | None) -> None:
    raise Hang


def fuzz(kind: str, texts: list[str], inputs: int, seed: int) -> float:
    """Read `inputs` damaged texts of one format; return the seconds of the slowest."""
    draw, known, slowest = random.Random(f"{seed} {kind}"), FORMATS[kind], 0.0
    for count in range(inputs):
        text = damaged(draw, draw.choice(texts))
        signal.alarm(HANG_S)
        begin = time.perf_counter()
        try:
            known.is_it(text)
            reading = known.read(text)
        except BaseException:
            print(f"{kind}: input {count} of seed {seed}: {text[:400]!r}", file=sys.stderr)
            raise
        finally:
            signal.alarm(0)
        slowest = max(slowest, time.perf_counter() - begin)
        bad = [
            row for row in reading.rows if not row.no_speed and not all(s > 0 for s in row.seconds)
        ]
        assert not bad, (kind, count, bad[0])
    return slowest


def main() -> int:
    """Fuzz the formats that are named, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("formats", nargs="*", default=list(FORMATS))
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _alarm)
    for kind in options.formats:
        texts = [(SAMPLES / name).read_text() for name, of in FORMAT_OF.items() if of == kind]
        begin = time.monotonic()
        slowest = fuzz(kind, texts, options.inputs, options.seed)
        took = time.monotonic() - begin
        print(
            f"{kind}: {options.inputs:,} inputs in {took:.0f} s, the slowest in "
            f"{slowest * 1e3:.1f} ms: no exception, no hang",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
