"""TransferBench's CSV (OUTPUT_TO_CSV=1): a row for each transfer, in GB (1e9) per second and ms.

A transfer has a source, an executor and a destination, such as G0 to G1. The transfers of one test
run at once. Rows with the sum over a test are not read.
"""

from mi300bench.ingest.reading import LogReading, Row, cells, clean, positive, whole
from mi300bench.schema.record import Scalar, Work

TOOL = "TransferBench"


def is_ours(text: str) -> bool:
    """Return whether a text is TransferBench's CSV."""
    return "Test#" in text and "Transfer#" in text and "BW(GB/s)" in text


def read(text: str) -> LogReading:
    """Return the transfers of a CSV."""
    reading, columns = LogReading(tool=TOOL), list[str]()
    for line, raw in clean(text):
        values = cells(raw.strip())
        if "Test#" in values:
            columns = values
            continue
        if not columns or len(values) < 2:
            continue
        # Versions differ in the addresses at the end.
        if len(values) not in (len(columns), len(columns) + 1, len(columns) - 2):
            reading.skip(line, raw, f"{len(values)} columns, the header has {len(columns)}")
            continue
        named = dict(zip(columns, values, strict=False))
        if whole(named.get("Transfer#", "")) is None:
            reading.skip(line, raw, "a sum over the transfers of a test")
            continue
        size, rate, millis = (
            whole(named.get("NumBytes", "")),
            positive(named.get("BW(GB/s)", "")),
            positive(named.get("Time(ms)", "")),
        )
        if not size or not millis:
            reading.skip(line, raw, "no bytes or no time")
            continue
        params: dict[str, Scalar] = {
            "bytes": size,
            "src": named.get("Src", "")[:20],
            "exe": named.get("Exe", "")[:20],
            "dst": named.get("Dst", "")[:20],
            "compute_units": whole(named.get("CUs", "")) or 0,
            "test": whole(named.get("Test#", "")) or 0,
        }
        reading.rows.append(
            Row(
                probe="transfer",
                params=params,
                line=line,
                seconds=(millis * 1e-3,),
                work=Work(message_bytes=float(size)),
                ranks=1,
                stated={"stated_bandwidth": (rate * 1e9,)} if rate else {},
            )
        )
    return reading
