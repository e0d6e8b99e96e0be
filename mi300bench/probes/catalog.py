"""The table of probes, which can be read without importing a framework.

A point names its probe by its key in the table; the worker imports the target. The probes of a
trainer are declared in its `spec.py`, in a package of `TRAINERS`.
"""

import importlib
from collections.abc import Mapping

from mi300bench.errors import PlanError
from mi300bench.schema.probe import ProbeEntry

# The package of each trainer; its ``spec.py`` declares the trainer.
TRAINERS = {
    "zaya1": "mi300bench_training.zaya1",
    "lora405b": "mi300bench_training.lora405b",
}


def _memory(name: str, summary: str) -> ProbeEntry:
    return ProbeEntry(
        target=f"mi300bench.probes.memory:{name}", method=1, needs="torch", summary=summary
    )


def _collective(name: str, summary: str) -> ProbeEntry:
    return ProbeEntry(
        target=f"mi300bench.probes.collective:{name}",
        method=1,
        needs="torch",
        summary=summary,
        ranks=2,
    )


def _jax(name: str, summary: str, *, ranks: int = 1) -> ProbeEntry:
    module = "jax_collective" if ranks > 1 else "jax_compute"
    return ProbeEntry(
        target=f"mi300bench.probes.{module}:Jax{name}",
        method=1,
        needs="jax",
        summary=summary,
        ranks=ranks,
    )


CATALOG = {
    "memory.read": _memory("Read", "Sum one array."),
    "memory.write": _memory("Write", "Fill one array."),
    "memory.copy": _memory("Copy", "Read one array, write another."),
    "memory.scale": _memory("Scale", "Read one array, write its multiple."),
    "memory.add": _memory("Add", "Read two arrays, write their sum."),
    "memory.triad": _memory("Triad", "Read two arrays, write one plus a multiple of the other."),
    "memory.gather": _memory("Gather", "Read rows in random order, write them in sequence."),
    "memory.scatter": _memory("Scatter", "Read rows in sequence, write them in random order."),
    "gemm": ProbeEntry(
        target="mi300bench.probes.gemm:GemmProbe",
        method=2,
        needs="torch",
        summary="C[M,N] = A[M,K] B[K,N]; K is the reduction.",
    ),
    "gemm.experts": ProbeEntry(
        target="mi300bench.probes.experts:ExpertsProbe",
        method=1,
        needs="torch",
        summary="Rows times the matrix of their expert: grouped, padded, or one by one.",
    ),
    "collective.all_reduce": _collective("AllReduce", "Sum over the ranks, on every rank."),
    "collective.all_gather": _collective("AllGather", "The parts of all ranks, on every rank."),
    "collective.reduce_scatter": _collective(
        "ReduceScatter", "Sum over the ranks; each rank keeps its part."
    ),
    "collective.all_to_all": _collective("AllToAll", "Each rank sends a part to each rank."),
    "collective.broadcast": _collective("Broadcast", "One rank sends to all; the root rotates."),
    "collective.send_recv": _collective("SendRecv", "Pairs of ranks send and reply."),
    "overlap": ProbeEntry(
        target="mi300bench.probes.overlap:Overlap",
        method=1,
        needs="torch",
        summary="An all-reduce beside matrix products: how much each slows the other.",
        ranks=2,
    ),
    "jax.gemm": _jax("Gemm", "C[M,N] = A[M,K] B[K,N], compiled by XLA; K is the reduction."),
    "jax.memory.scale": _jax("Scale", "Read one array, write its multiple; compiled by XLA."),
    "jax.memory.add": _jax("Add", "Read two arrays, write their sum; compiled by XLA."),
    "jax.memory.triad": _jax(
        "Triad", "Read two arrays, write one plus a multiple of the other; compiled by XLA."
    ),
    "jax.collective.all_reduce": _jax(
        "AllReduce", "Sum over the devices of a mesh, on every device.", ranks=2
    ),
    "jax.collective.all_gather": _jax(
        "AllGather", "The parts of all devices, on every device of a mesh.", ranks=2
    ),
    "jax.collective.reduce_scatter": _jax(
        "ReduceScatter", "Sum over the devices of a mesh; each keeps its part.", ranks=2
    ),
    "jax.collective.all_to_all": _jax(
        "AllToAll", "Each device of a mesh sends a part to each device.", ranks=2
    ),
}


def trainer_probes(trainer: str) -> Mapping[str, ProbeEntry]:
    """Return the probes of a trainer by their full names."""
    spec = importlib.import_module(f"{TRAINERS[trainer]}.spec").TRAINER
    return {f"{trainer}.{name}": probe for name, probe in spec.probes.items()}


def every_probe() -> dict[str, ProbeEntry]:
    """Return all probes, including those of the trainers."""
    return CATALOG | {
        name: probe for trainer in TRAINERS for name, probe in trainer_probes(trainer).items()
    }


def entry(probe: str) -> ProbeEntry:
    """Return the entry of `probe`; raise `PlanError` with the known names if there is none."""
    if probe in CATALOG:
        return CATALOG[probe]
    trainer = probe.partition(".")[0]
    own = trainer_probes(trainer) if trainer in TRAINERS else {}
    if probe not in own:
        raise PlanError(
            f"there is no probe {probe!r}", hint=f"choose one of {', '.join(every_probe())}"
        )
    return own[probe]
