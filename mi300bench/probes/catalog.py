"""The table of probes: where each lives, its method (raised when the way of measuring changes), what it is.

Read without importing a framework. A point names its probe by key; the worker imports the target.
"""

from dataclasses import dataclass

from mi300bench.errors import PlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One probe. `target` is ``module:Class``; `needs` the framework; `ranks` the fewest that make sense."""

    target: str
    method: int
    needs: str
    summary: str
    ranks: int = 1


def _memory(name: str, summary: str) -> Entry:
    return Entry(
        target=f"mi300bench.probes.memory:{name}", method=1, needs="torch", summary=summary
    )


def _collective(name: str, summary: str) -> Entry:
    return Entry(
        target=f"mi300bench.probes.collective:{name}",
        method=1,
        needs="torch",
        summary=summary,
        ranks=2,
    )


def _jax(name: str, summary: str, *, ranks: int = 1) -> Entry:
    module = "jax_collective" if ranks > 1 else "jax_compute"
    return Entry(
        target=f"mi300bench.probes.{module}:{name}",
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
    "gemm": Entry(
        target="mi300bench.probes.gemm:Gemm",
        method=1,
        needs="torch",
        summary="C[M,N] = A[M,K] B[K,N]; K is the reduction.",
    ),
    "gemm.experts": Entry(
        target="mi300bench.probes.experts:Experts",
        method=1,
        needs="torch",
        summary="Rows times their expert's matrix: grouped, padded, or one product an expert.",
    ),
    "collective.all_reduce": _collective("AllReduce", "Sum over the ranks, on every rank."),
    "collective.all_gather": _collective("AllGather", "Every rank's part, on every rank."),
    "collective.reduce_scatter": _collective(
        "ReduceScatter", "Sum over the ranks, each rank keeps its part."
    ),
    "collective.all_to_all": _collective("AllToAll", "Each rank sends a part to each."),
    "collective.broadcast": _collective("Broadcast", "One rank's array to all; the root rotates."),
    "collective.send_recv": _collective("SendRecv", "Pairs of ranks, to and fro."),
    "overlap": Entry(
        target="mi300bench.probes.overlap:Overlap",
        method=1,
        needs="torch",
        summary="An all-reduce beside matrix products: how much each slows.",
        ranks=2,
    ),
    "jax.gemm": _jax("Gemm", "C[M,N] = A[M,K] B[K,N] as XLA compiles it; K is the reduction."),
    "jax.memory.scale": _jax("Scale", "Read one array, write its multiple, as XLA compiles it."),
    "jax.memory.add": _jax("Add", "Read two arrays, write their sum, as XLA compiles it."),
    "jax.memory.triad": _jax(
        "Triad", "Read two arrays, write one plus a multiple of the other, as XLA compiles it."
    ),
    "jax.collective.all_reduce": _jax(
        "AllReduce", "Sum over the devices of a mesh, on every device.", ranks=2
    ),
    "jax.collective.all_gather": _jax(
        "AllGather", "Every device's part, on every device of a mesh.", ranks=2
    ),
    "jax.collective.reduce_scatter": _jax(
        "ReduceScatter", "Sum over the devices of a mesh, each keeps its part.", ranks=2
    ),
    "jax.collective.all_to_all": _jax(
        "AllToAll", "Each device of a mesh sends a part to each.", ranks=2
    ),
    "zaya1.backward": Entry(
        target="mi300bench_training.zaya1.measure:Backward",
        method=2,
        needs="torch",
        summary="When each gradient of ZAYA1 is ready; all ranks compute, none communicates.",
    ),
    "zaya1.step": Entry(
        target="mi300bench_training.zaya1.measure:Step",
        method=2,
        needs="torch",
        summary="One whole training step of ZAYA1 under DDP.",
    ),
    "zaya1.memory": Entry(
        target="mi300bench_training.zaya1.measure:Memory",
        method=1,
        needs="torch",
        summary="The most bytes that training ZAYA1 holds at once on a rank.",
    ),
    "lora405b.step": Entry(
        target="mi300bench_training.lora405b.measure:Step",
        method=1,
        needs="jax",
        summary="One whole training step of LoRA on Llama 3.1, on a mesh of one process's devices.",
    ),
}


def entry(probe: str) -> Entry:
    """Return the entry of `probe`; an unknown name lists the known."""
    if probe not in CATALOG:
        raise PlanError(f"there is no probe {probe!r}", hint=f"one of {', '.join(CATALOG)}")
    return CATALOG[probe]
