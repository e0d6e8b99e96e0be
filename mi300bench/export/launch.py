"""Lines that start the trainer with its tuned config: under torchrun, and as a Slurm batch file that calls it on each node.

Ranks meet through torchrun's c10d rendezvous on the first node, as PyTorch's documentation has it for Slurm.
"""

from mi300bench.export.source import Exported, ExportSource, comments

PORT = 29_400


def _trainer(source: ExportSource) -> str:
    return f'-m mi300bench.cli train {source.tuned.trainer} --config "$CONFIG"'


def _threads(source: ExportSource) -> str:
    return f"export OMP_NUM_THREADS={source.ranks.threads}\n" if source.ranks.threads else ""


def torchrun(source: ExportSource) -> Exported:
    """Return a shell script for one machine; its argument is the tuned config."""
    text = (
        "#!/bin/sh\n"
        + comments([*source.head(), "use: sh FILE tuned.toml"])
        + 'CONFIG="${1:-tuned.toml}"\n'
        + _threads(source)
        + f"exec torchrun --standalone --nproc-per-node={source.ranks.ranks} {_trainer(source)}\n"
    )
    return Exported(text=text)


def sbatch(source: ExportSource) -> Exported:
    """Return a batch file for ``sbatch FILE tuned.toml``: one task a node, which starts that node's ranks."""
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
        f"tuned for {source.ranks.ranks} rank(s) on one node; --nodes may be raised, and then the global batch of "
        f"{source.run.batch.global_batch} sequences grows with it and the buckets are to be tuned anew"
    ]
    text = (
        "#!/bin/bash\n"
        + "".join(f"#SBATCH {line}\n" for line in lines)
        + comments([*source.head(), "use: sbatch FILE tuned.toml", *notes])
        + 'set -eu\nCONFIG="${1:-tuned.toml}"\n'
        + _threads(source)
        + 'FIRST=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        + f"srun torchrun --nnodes=$SLURM_JOB_NUM_NODES --nproc-per-node={source.ranks.ranks} "
        + f'--rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d --rdzv-endpoint="$FIRST:{PORT}" \\\n  {_trainer(source)}\n'
    )
    return Exported(text=text, notes=tuple(notes))
