from pathlib import Path

import pytest
from mi300bench.errors import NodeError, PlanError
from mi300bench.measurement import local_topology


def test_the_driver_tells_the_device(tmp_path: Path) -> None:
    assert local_topology.detect_device(tmp_path) == "cpu"
    for node, simds in enumerate((0, 1216, 1216)):
        folder = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{node}"
        folder.mkdir(parents=True)
        (folder / "properties").write_text(f"cpu_cores_count 0\nsimd_count {simds}\n")
    assert (
        local_topology.detect_device(tmp_path) == "rocm" and local_topology.rocm_gpus(tmp_path) == 2
    )


def test_a_cpu_world_shares_out_the_cores(monkeypatch) -> None:
    monkeypatch.setattr(world, "cores", lambda: 8)
    assert (
        local_topology.world("cpu", 2).threads == 4 and local_topology.world("cpu", 16).threads == 1
    )
    assert local_topology.default_ranks("cpu") == 2


def test_more_ranks_than_gpus_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(world, "rocm_gpus", lambda: 2)
    with pytest.raises(NodeError, match="2"):
        local_topology.world("rocm", 4)
    assert local_topology.world("rocm", 2).threads == 0


@pytest.mark.parametrize(("device", "ranks"), [("tpu", 1), ("cpu", 0)])
def test_worlds_that_cannot_be(device: str, ranks: int) -> None:
    with pytest.raises(PlanError):
        local_topology.world(device, ranks)
