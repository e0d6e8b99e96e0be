from pathlib import Path

from mi300bench.hw import inventory
from mi300bench.schema.doubt import Governor, LittleMemory, NumaBalancing, PartitionMode


def write(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def machine(root: Path) -> Path:
    """Make the file tree of a misconfigured two-socket server."""
    for cpu in range(4):
        for index, (level, size) in enumerate((("1", "32K"), ("2", "1024K"), ("3", "32768K"))):
            shared = f"{cpu}" if level != "3" else ("0-1" if cpu < 2 else "2-3")
            folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
            write(root, f"{folder}/level", level)
            write(root, f"{folder}/size", size)
            write(root, f"{folder}/shared_cpu_list", shared)
    write(root, "proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    2097152 kB\n")
    write(root, "proc/stat", "cpu  10 0 10 80 0 0 0 0 0 0\n")
    write(root, "proc/cpuinfo", "processor\t: 0\nmodel name\t: Some Xeon\n")
    write(root, "proc/sys/kernel/numa_balancing", "1\n")
    write(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    (root / "sys/devices/system/node/node0").mkdir(parents=True)
    (root / "sys/devices/system/node/node1").mkdir(parents=True)
    write(root, "sys/class/infiniband/ionic_0/ports/1/rate", "400 Gb/sec (4X NDR)\n")
    return root


def test_each_last_level_cache_counts_once(tmp_path: Path) -> None:
    assert inventory.cpu_cache_bytes(machine(tmp_path)) == 2 * 32768 * 1024
    assert inventory.cpu_cache_bytes(tmp_path / "nothing") is None


def test_a_misconfigured_node_has_doubts(tmp_path: Path) -> None:
    node = inventory.take_inventory(node="n1", root=machine(tmp_path))
    kinds = {type(doubt) for doubt in node.doubts}
    assert {NumaBalancing, Governor, LittleMemory} <= kinds
    assert node.numa_nodes == 2 and node.numa_balancing is True and node.cpu == "Some Xeon"
    assert node.nics == ("ionic_0 400 Gb/sec (4X NDR)",)


def test_a_control_group_limits_the_memory(tmp_path: Path) -> None:
    root = machine(tmp_path)
    write(root, "sys/fs/cgroup/memory.max", str(4 * 2**30))
    write(root, "sys/fs/cgroup/memory.current", str(3 * 2**30))
    assert inventory.memory(root) == (4 * 2**30, 2**30)


def test_amd_smi_json_gives_gpus_and_a_partitioned_gpu_has_a_doubt() -> None:
    static = [
        {
            "gpu": 0,
            "asic": {
                "market_name": "AMD Instinct MI300X",
                "target_graphics_version": "gfx942",
            },
            "partition": {"compute_partition": "CPX", "memory_partition": "NPS4"},
            "limit": {"max_power": {"value": 750}},
        }
    ]
    gpus = inventory.read_amd_smi(static)
    assert gpus[0]["name"] == "AMD Instinct MI300X"
    doubts = inventory._doubts("0", "performance", 0.0, 4, 2**40, gpus)
    assert doubts == (PartitionMode(compute="CPX", memory="NPS4"),)


def test_amd_smi_without_usable_json_gives_no_gpu() -> None:
    assert inventory.read_amd_smi(None) == () == inventory.read_amd_smi("error")
    (gpu,) = inventory.read_amd_smi(
        [{"gpu": 0, "asic": "N/A", "partition": {"compute_partition": "N/A"}}, "noise"]
    )
    assert gpu["name"] == "" and inventory._doubts("0", "", 0.0, 4, 2**40, [gpu]) == ()


def test_this_machine_can_be_described() -> None:
    node = inventory.take_inventory()
    assert node.cores >= 1 and node.memory_bytes > 0
