"""Scripts that start our trainer with its tuned config: with torchrun, and as a Slurm batch file.

Under Slurm the ranks find each other by torchrun's c10d rendezvous on the first node, as PyTorch's
documentation describes.
"""

from mi300bench.export.source import Exported, ExportSource, comments

PORT = 29_400


def _trainer(source: ExportSource) -> str:
    return f'-m mi300bench.cli train {source.tuned.trainer} --config "$CONFIG"'


def _threads(source: ExportSource) -> str:
    return f"export OMP_NUM_THREADS={source.ranks.threads}\n" if source.ranks.threads else ""


def torchrun(source: ExportSource) -> Exported:
    """Return a shell script for one machine. Its argument is the path of the tuned config."""
    text = (
        "#!/bin/sh\n"
        + comments([*source.head(), "use: sh FILE tuned.toml"])
        + 'CONFIG="${1:-tuned.toml}"\n'
        + _threads(source)
        + f"exec torchrun --standalone --nproc-per-node={source.ranks.ranks} {_trainer(source)}\n"
    )
    return Exported(text=text)


def sbatch(source: ExportSource) -> Exported:
    """Return a file for ``sbatch FILE tuned.toml``: one task per node starts the node's ranks."""
    is_cpu = source.tuned.device_kind == "cpu"
    resources = (
        [f"--cpus-per-task={max(1, source.ranks.threads) * source.ranks.ranks}"]
        if is_cpu
        else [f"--gpus-per-node={source.ranks.ranks}"]
    )
    lines = [
        f"--job-name={source.tuned.trainer}",
        "--nodes=1",
        "--ntasks-per-node=1",
        *resources,
        "--output=%x-%j.out",
    ]
    notes = [
        f"tuned for {source.ranks.ranks} rank(s) on one node; if you raise --nodes, the global "
        f"batch of {source.run.batch.global_batch} sequences grows: then tune the buckets for it"
    ]
    text = (
        "#!/bin/bash\n"
        + "".join(f"#SBATCH {line}\n" for line in lines)
        + comments([*source.head(), "use: sbatch FILE tuned.toml", *notes])
        + 'set -eu\nCONFIG="${1:-tuned.toml}"\n'
        + _threads(source)
        + 'FIRST=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        + f"srun torchrun --nnodes=$SLURM_JOB_NUM_NODES --nproc-per-node={source.ranks.ranks} "
        + f'--rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d --rdzv-endpoint="$FIRST:{PORT}" \\\n'
        + f"  {_trainer(source)}\n"
    )
    return Exported(text=text, notes=tuple(notes))
