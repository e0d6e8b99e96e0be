"""Lines that start the trainer with its tuned config: under torchrun, and as a Slurm batch file that calls it on each node.

Ranks meet through torchrun's c10d rendezvous on the first node, as PyTorch's documentation has it for Slurm.
"""

from mi300bench.export.exported import Exported, Settings, comments

PORT = 29_400


def _trainer(settings: Settings) -> str:
    return f'-m mi300bench.cli train {settings.tuned.trainer} --config "$CONFIG"'


def _threads(settings: Settings) -> str:
    return f"export OMP_NUM_THREADS={settings.threads}\n" if settings.threads else ""


def torchrun(settings: Settings) -> Exported:
    """Return a shell script for one machine; its argument is the tuned config."""
    text = (
        "#!/bin/sh\n"
        + comments([*settings.head(), "use: sh FILE tuned.toml"])
        + 'CONFIG="${1:-tuned.toml}"\n'
        + _threads(settings)
        + f"exec torchrun --standalone --nproc-per-node={settings.ranks} {_trainer(settings)}\n"
    )
    return Exported(text=text)


def sbatch(settings: Settings) -> Exported:
    """Return a batch file for ``sbatch FILE tuned.toml``: one task a node, which starts that node's ranks."""
    is_cpu = settings.tuned.device_kind == "cpu"
    resources = (
        [f"--cpus-per-task={max(1, settings.threads) * settings.ranks}"]
        if is_cpu
        else [f"--gpus-per-node={settings.ranks}"]
    )
    lines = [
        f"--job-name={settings.tuned.trainer}",
        "--nodes=1",
        "--ntasks-per-node=1",
        *resources,
        "--output=%x-%j.out",
    ]
    notes = [
        f"tuned for {settings.ranks} rank(s) on one node; --nodes may be raised, and then the global batch of "
        f"{settings.global_batch} sequences grows with it and the buckets are to be tuned anew"
    ]
    text = (
        "#!/bin/bash\n"
        + "".join(f"#SBATCH {line}\n" for line in lines)
        + comments([*settings.head(), "use: sbatch FILE tuned.toml", *notes])
        + 'set -eu\nCONFIG="${1:-tuned.toml}"\n'
        + _threads(settings)
        + 'FIRST=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        + f"srun torchrun --nnodes=$SLURM_JOB_NUM_NODES --nproc-per-node={settings.ranks} "
        + f'--rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d --rdzv-endpoint="$FIRST:{PORT}" \\\n  {_trainer(settings)}\n'
    )
    return Exported(text=text, notes=tuple(notes))
