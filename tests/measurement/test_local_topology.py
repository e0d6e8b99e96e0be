from pathlib import Path

import pytest
from mi300bench.errors import NodeError, PlanError
from mi300bench.measurement import local_topology
from mi300bench.schema.record import World


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch) -> Path:
    """Return the root of a machine whose amdgpu driver lists two GPUs, all of them visible."""
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for node, simds in enumerate((0, 1216, 1216)):
        folder = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{node}"
        folder.mkdir(parents=True)
        (folder / "properties").write_text(f"cpu_cores_count 0\nsimd_count {simds}\n")
    return tmp_path


def test_the_loaded_driver_decides_the_device(tmp_path: Path, two_gpus: Path) -> None:
    assert local_topology.detect_device(tmp_path / "empty") == "cpu"
    assert local_topology.detect_device(two_gpus) == "rocm"
    assert local_topology.rocm_gpus(two_gpus) == 2


@pytest.mark.parametrize(("listed", "count"), [("0,1", 2), ("1", 1), ("", 0), ("-1", 0)])
def test_the_environment_may_hide_gpus(
    monkeypatch, two_gpus: Path, listed: str, count: int
) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", listed)
    assert local_topology.rocm_gpus(two_gpus) == count


def test_the_cores_of_a_cpu_are_shared_out_among_the_ranks(monkeypatch) -> None:
    monkeypatch.setattr(local_topology, "cores", lambda: 8)
    assert local_topology.local_topology("cpu", 2).threads == 4
    assert local_topology.local_topology("cpu", 16).threads == 1
    assert local_topology.local_topology("cpu", 2, threads=3).threads == 3
    assert local_topology.default_ranks("cpu") == 2


def test_more_ranks_than_gpus_are_refused_unless_the_machine_is_another(monkeypatch) -> None:
    monkeypatch.setattr(local_topology, "rocm_gpus", lambda: 2)
    with pytest.raises(NodeError) as caught:
        local_topology.local_topology("rocm", 4)
    assert caught.value.hint == "--ranks 2"
    assert local_topology.local_topology("rocm", 2) == World(device="rocm", ranks=2)
    assert local_topology.local_topology("rocm", 4, is_absent=True).ranks == 4
    assert local_topology.local_topology("rocm", 4, launcher="srun").ranks == 4


@pytest.mark.parametrize(("device", "ranks"), [("tpu", 1), ("cpu", 0)])
def test_unknown_devices_and_no_ranks_are_refused(device: str, ranks: int) -> None:
    with pytest.raises(PlanError):
        local_topology.local_topology(device, ranks)


def test_a_rank_may_use_its_share_of_the_memory(monkeypatch) -> None:
    monkeypatch.setattr(local_topology, "memory", lambda: (64.0, 32.0))
    world = World(device="cpu", ranks=4)
    assert local_topology.memory_limit(world) == 16.0
    assert local_topology.memory_limit(world, is_absent=True) is None
    assert local_topology.memory_limit(World(device="cuda")) is None
