"""What this machine has for tests: each function returns why something is missing, or nothing."""

import importlib.util
import os
import shutil
from pathlib import Path

CHROMIUM = "/usr/bin/chromium"
SLURM_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo")
GPU_NODES = ("/dev/kfd", "/dev/nvidia0")


def missing_torch() -> str:
    """Return why torch cannot be imported."""
    return "" if importlib.util.find_spec("torch") else "torch is not installed"


def missing_browser() -> str:
    """Return why no page can be opened."""
    return "" if Path(CHROMIUM).exists() else f"there is no {CHROMIUM}"


def missing_namespaces() -> str:
    """Return why no network namespace can be made."""
    is_able = os.geteuid() == 0 and shutil.which("ip") and shutil.which("tc")
    return "" if is_able else "needs root and iproute2"


def missing_slurm() -> str:
    """Return why Slurm cannot be started."""
    if os.geteuid() != 0:
        return "needs root"
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    absent = [name for name in SLURM_PROGRAMS if shutil.which(name, path=path) is None]
    return f"needs slurm-wlm and munge ({', '.join(absent)} missing)" if absent else ""


def missing_gpu() -> str:
    """Return why nothing can run on a GPU."""
    return "" if any(Path(node).exists() for node in GPU_NODES) else "there is no GPU"


REASONS = {
    "torch": missing_torch,
    "browser": missing_browser,
    "cluster": missing_namespaces,
    "slurm": missing_slurm,
    "device": missing_gpu,
}
