"""The device interface on a CPU."""

import subprocess
import sys

import pytest
from mi300bench.errors import NodeError

pytestmark = pytest.mark.torch
MIB = 2**20


@pytest.fixture
def cpu():
    from mi300bench.device.open import open_torch_device

    return open_torch_device("cpu", threads=1)


def test_seconds_are_per_call(cpu) -> None:
    import time

    assert cpu.seconds(lambda: time.sleep(0.01), 5) == pytest.approx(0.01, rel=0.5)
    first = cpu.mark()
    time.sleep(0.02)
    assert cpu.between(first, cpu.mark()) >= 0.02


def test_a_flush_writes_more_than_twice_the_cache(cpu) -> None:
    cpu.flush()
    assert cpu._flushed.numel() * 4 > 2 * (cpu.cache_bytes or 0)


def test_peak_memory_is_the_peak_of_the_allocator(cpu) -> None:
    import torch

    def call() -> None:
        a = torch.ones(8 * MIB)  # 32 MiB
        b = a + 1  # 64 MiB held at once
        del a
        c = b * 2
        assert c is not None

    assert cpu.peak_memory(call) == pytest.approx(64 * MIB, rel=0.01)


def test_peak_memory_agrees_with_the_resident_set_of_a_fresh_process() -> None:
    code = (
        "import re, resource, torch\n"
        "from mi300bench.device.open import open_torch_device\n"
        "cpu = open_torch_device('cpu', threads=1)\n"
        "def call():\n"
        "    a = torch.ones(64 * 2**20); b = a + 1; del a; c = b * 2\n"
        "cpu.peak_memory(lambda: torch.ones(4))\n"
        "before = int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize()\n"
        "peak = cpu.peak_memory(call)\n"
        # Not `ru_maxrss`: a process inherits that from the one that started it.
        "status = open('/proc/self/status').read()\n"
        "highest = int(re.search(r'VmHWM:\\s+(\\d+) kB', status)[1]) * 1024\n"
        "grown = highest - before\n"
        "print(grown / peak)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert float(answer.stdout) == pytest.approx(1.0, abs=0.1)


def test_a_missing_gpu_is_a_node_error() -> None:
    from mi300bench.device.open import open_torch_device, torch_device_kind

    if torch_device_kind() != "cpu":
        pytest.skip("this machine has a GPU")
    with pytest.raises(NodeError, match="--device rocm"):
        open_torch_device("rocm")


def test_the_infinity_cache_is_read_from_kfd(tmp_path) -> None:
    from mi300bench.device.torch_gpu import kfd_cache_bytes

    for index, (level, kib) in enumerate(((1, 32), (2, 4096), (3, 262144))):
        folder = tmp_path / f"sys/class/kfd/kfd/topology/nodes/1/caches/{index}"
        folder.mkdir(parents=True)
        (folder / "properties").write_text(f"processor_id_low 1\nlevel {level}\nsize {kib}\n")
    assert kfd_cache_bytes(tmp_path) == 256 * MIB
    assert kfd_cache_bytes(tmp_path / "none") is None
