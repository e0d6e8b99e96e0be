"""hipblaslt-bench's CSV lines, and the logs of mamf-finder.

hipblaslt-bench stores matrices by columns, as BLAS does; M, N and K are kept as printed. Its time
is in microseconds per call, its rate in GFLOPS over all batches. mamf-finder prints one line for
each shape and overwrites it; the median is read.
"""

import re

from mi300bench.ingest.reading import (
    CUT_OFF,
    LogReading,
    Row,
    cells,
    clean,
    is_cut,
    positive,
    seconds_of,
    whole,
)
from mi300bench.schema.record import Scalar, Work

BLAS, MAMF = "hipblaslt-bench", "mamf-finder"
TYPES = {
    "f32_r": "float32",
    "f16_r": "float16",
    "bf16_r": "bfloat16",
    "f8_r": "float8_e4m3",
    "bf8_r": "float8_e5m2",
    "f64_r": "float64",
    "fp16_r": "float16",
    "fp32_r": "float32",
    "i8_r": "int8",
}
_PREFIX = re.compile(r"^\s*\[\d{1,4}\]:?")
_TRIED = re.compile(
    r"(\d{1,9}) \|\s*([\d.,]{1,12})\(mean\)\s*([\d.,]{1,12})\(median\)\s*"
    r"([\d.,]{1,12})\(max\) @ (\d{1,7})x(\d{1,7})x(\d{1,7})"
)
_DTYPE = re.compile(r"^\*\* Dtype: (?:torch\.)?(\w{1,40})")
_DEVICE = re.compile(
    r"^- _CudaDeviceProperties\(name='([^']{1,80})'|^- (AMD [^,]{1,70}|NVIDIA [^,]{1,70})"
)
_BLAS_DEVICE = re.compile(r"^Device ID \d+ : (.{1,80}?)(?: gfx\w+\S*)?\s*$")


def is_blas(text: str) -> bool:
    """Return whether a text has hipblaslt-bench's columns."""
    return "hipblaslt-Gflops" in text


def is_mamf(text: str) -> bool:
    """Return whether a text is a log of mamf-finder."""
    return "(mean)" in text and "(median)" in text and bool(_TRIED.search(text))


def read_blas(text: str) -> LogReading:
    """Return the rows of hipblaslt-bench's output, from one header to the next."""
    reading, columns = LogReading(tool=BLAS), list[str]()
    for line, raw in clean(text):
        if match := _BLAS_DEVICE.match(raw.strip()):
            reading.device = match.group(1).strip()
            continue
        values = cells(_PREFIX.sub("", raw).strip())
        if "hipblaslt-Gflops" in values:
            columns = values
            continue
        if len(values) < 4 or not columns:
            continue
        if is_cut(text, line):
            reading.skip(line, raw, CUT_OFF)
            continue
        if len(values) != len(columns):
            reading.skip(line, raw, f"{len(values)} columns, the header has {len(columns)}")
            continue
        row = _blas_row(dict(zip(columns, values, strict=True)), line)
        if isinstance(row, str):
            reading.skip(line, raw, row)
        else:
            reading.rows.append(row)
    return reading


def _blas_row(named: dict[str, str], line: int) -> Row | str:
    m, n, k = (whole(named.get(name, "")) for name in ("m", "n", "k"))
    micros, rate = positive(named.get("us", "")), positive(named.get("hipblaslt-Gflops", ""))
    batch = whole(named.get("batch_count", "1")) or 1
    if not (m and n and k and micros):
        return "no shape or no time"
    if named.get("grouped_gemm", "0") not in ("0", "", "false"):
        return "a grouped product, of which the columns have only the first group"
    a_type = named.get("a_type", named.get("d_type", ""))
    params: dict[str, Scalar] = {
        "m": m,
        "n": n,
        "k": k,
        "layout": f"{named.get('transA', 'N')}{named.get('transB', 'N')}".lower(),
        "dtype": TYPES.get(a_type, a_type),
    }
    params |= {"batch": batch} if batch > 1 else {}
    # xf32 multiplies float32 inputs with a shorter mantissa, at a peak of its own.
    is_xf32 = "xf32" in named.get("compute_type", "")
    params |= {"compute": "xfloat32"} if is_xf32 else {}
    return Row(
        probe="gemm",
        params=params,
        line=line,
        seconds=(seconds_of(micros),),
        work=Work(flop=2.0 * m * n * k * batch),
        ranks=1,
        stated={"stated_rate": (rate * 1e9,)} if rate else {},
    )


def read_mamf(text: str) -> LogReading:
    """Return every shape of a log, without the summary at its end, which repeats some of them."""
    reading, dtype = LogReading(tool=MAMF), ""
    seen: set[str] = set()
    for line, raw in clean(text):
        stripped = raw.strip()
        if match := _DTYPE.match(stripped):
            dtype = match.group(1)
        elif match := _DEVICE.match(stripped):
            reading.device = (match.group(1) or match.group(2)).strip()
        elif match := _TRIED.search(stripped):
            _take(reading, match, dtype, seen, line)
    return reading


def _take(reading: LogReading, match: re.Match[str], dtype: str, seen: set[str], line: int) -> None:
    """Add one shape; the tool prints its line several times."""
    place, *cells_of_line = match.groups()
    mean, median, most = (positive(text) for text in cells_of_line[:3])
    m, n, k = (int(text) for text in cells_of_line[3:])
    key = f"{place} {m} {n} {k}"
    if key in seen:
        reading.skip(line, match.group(0), "a copy of a line above")
        return
    if not (mean and median and most and m and n and k):
        reading.skip(line, match.group(0), "a rate or a size of zero")
        return
    seen.add(key)
    flop = 2.0 * m * n * k
    params: dict[str, Scalar] = {
        "m": m,
        "n": n,
        "k": k,
        "layout": "nt",
        "dtype": dtype or "not told",
    }
    rates = {"stated_rate": median, "stated_mean_rate": mean, "stated_best_rate": most}
    reading.rows.append(
        Row(
            probe="gemm",
            params=params,
            line=line,
            seconds=(flop / (median * 1e12),),
            work=Work(flop=flop),
            ranks=1,
            stated={name: (rate * 1e12,) for name, rate in rates.items()},
        )
    )
