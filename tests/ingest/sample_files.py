"""Sample outputs, rebuilt from the sources and the documentation of the tools."""

from pathlib import Path

from mi300bench.ingest.reading import LogReading
from mi300bench.ingest.store_files import read_file

SAMPLES = Path(__file__).parent / "samples"
FORMAT_OF = {
    "rccl_all_reduce.txt": "rccl",
    "rccl_messy.txt": "rccl",
    "nccl_old.txt": "rccl",
    "nccl.json": "rccl-json",
    "rccl.json": "rccl-json",
    "rccl.csv": "rccl-csv",
    "babelstream.txt": "babelstream",
    "babelstream.csv": "babelstream",
    "hipblaslt.txt": "hipblaslt",
    "mamf.txt": "mamf",
    "transferbench.csv": "transferbench",
    "pytest_benchmark.json": "pytest-benchmark",
    "rocm_smi.csv": "rocm-smi",
}


def sample(name: str) -> LogReading:
    """Return what is read in a sample."""
    return read_file(SAMPLES / name, kind="auto")
