"""A real Slurm of one node, and our exports and launches under it.

    python -m tests.cluster.slurm

munged, slurmctld and slurmd run from a folder of their own, on ports of their own, and end with the
test. Needs root and Debian's slurm-wlm and munge.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tomli_w
from mi300bench.schema import config as tuned_config

from mi300bench_training.zaya1.spec import TRAINER
from tests.available import missing_slurm
from tests.samples import tuned

PORTS = (26_817, 26_818)
READY_S, JOB_S = 30.0, 120.0


def _configuration(folder: Path, host: str) -> str:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 - 512
    lines = [
        "ClusterName=one",
        f"SlurmctldHost={host}(127.0.0.1)",
        "SlurmUser=root",
        "SlurmdUser=root",
        f"SlurmctldPort={PORTS[0]}",
        f"SlurmdPort={PORTS[1]}",
        "AuthType=auth/munge",
        f"AuthInfo=socket={folder}/munge.socket",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/slurmd.pid",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "ReturnToService=2",
        "AccountingStorageType=accounting_storage/none",
        "JobAcctGatherType=jobacct_gather/none",
        f"NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} RealMemory={memory} "
        "State=UNKNOWN",
        f"PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES",
    ]
    return "\n".join(lines) + "\n"


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Run a one-node Slurm in `folder`; give the environment for its commands."""
    host = socket.gethostname().split(".")[0]
    for name in ("state", "spool", "log"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    conf, key = folder / "slurm.conf", folder / "munge.key"
    conf.write_text(_configuration(folder, host))
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin:/sbin"
    environment = os.environ | {"SLURM_CONF": str(conf), "PATH": paths}
    commands = [
        [
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            f"--socket={folder}/munge.socket",
            f"--pid-file={folder}/munged.pid",
            f"--seed-file={folder}/munge.seed",
            f"--log-file={folder}/log/munged",
        ],
        ["slurmctld", "-D", "-f", str(conf)],
        ["slurmd", "-D", "-f", str(conf), "-N", host],
    ]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (folder / "log" / f"{command[0]}.out").open("wb") as out:
                daemons.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
            time.sleep(1.0)
        _wait_until_idle(environment, folder)
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()


def _wait_until_idle(environment: dict[str, str], folder: Path) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        said = subprocess.run(
            ["sinfo", "-h", "-o", "%T"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if said.stdout.strip() == "idle":
            return
        time.sleep(0.5)
    logs = "\n".join(
        path.read_text(errors="replace")[-600:] for path in sorted((folder / "log").iterdir())
    )
    raise RuntimeError(f"Slurm did not come up in {READY_S:.0f} s:\n{logs}")


def run_batch_file(folder: Path, environment: dict[str, str]) -> dict:
    """Export a tuned config for sbatch, run it, and return the record that the training left."""
    made = TRAINER.override(
        TRAINER.preset("tiny"), {"launch.ranks": 2, "launch.threads": 1, "steps": 5}
    )
    document = tuned_config.to_document(tuned()) | {
        "config": TRAINER.to_tables(made),
        "ranks": 2,
        "device_kind": "cpu",
    }
    (folder / "tuned.toml").write_text(tomli_w.dumps(document))
    export = [
        sys.executable,
        "-m",
        "mi300bench",
        "export",
        "tuned.toml",
        "--to",
        "sbatch",
        "--out",
        "train.sbatch",
    ]
    subprocess.run(export, cwd=folder, check=True, capture_output=True)
    command = ["sbatch", "--wait", "train.sbatch", "tuned.toml"]
    answer = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=JOB_S,
    )
    said = "\n".join(path.read_text()[-2000:] for path in folder.glob("*.out"))
    if answer.returncode != 0:
        raise RuntimeError(f"sbatch ended with {answer.returncode}: {answer.stderr}\n{said}")
    store = next((folder / "runs").glob("*/*.jsonl"))
    return next(
        row
        for row in map(json.loads, store.read_text().splitlines())
        if row.get("probe") == "zaya1.train"
    )


def measure_under_srun(folder: Path, environment: dict[str, str]) -> list[dict]:
    """Measure an all-reduce whose ranks srun starts, and return its records."""
    command = [
        sys.executable,
        "-m",
        "mi300bench",
        "collectives",
        "--ops",
        "all_reduce",
        "--sizes",
        "64KiB",
        "--ranks",
        "2",
        "--passes",
        "1",
        "--device",
        "cpu",
        "--launch",
        "srun -n 2 --overlap",
        "--json",
    ]
    answer = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=JOB_S,
    )
    if answer.returncode != 0:
        raise RuntimeError(
            f"collectives under srun ended with {answer.returncode}: {answer.stderr}"
        )
    return json.loads(answer.stdout)


def main() -> int:
    """Print what ran under Slurm; 0 where both did."""
    reason = missing_slurm()
    if reason:
        print(f"Slurm: {reason}")
        return 3
    with tempfile.TemporaryDirectory() as name, slurm(Path(name) / "slurm") as environment:
        record = run_batch_file(Path(name), environment)
        print(
            f"sbatch: {record['world']['ranks']} ranks, {len(record['samples'])} steps, "
            f"loss {record['series']['loss'][-1]:.3f}"
        )
        rows = measure_under_srun(Path(name), environment)
        print(
            f"srun: {rows[0]['probe']} among {rows[0]['world']['ranks']} ranks, "
            f"{rows[0]['outcome']}, "
            f"launcher {rows[0]['conditions']['launcher']}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
