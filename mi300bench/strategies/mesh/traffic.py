"""The communication of a step on a mesh, from the curves of collectives, and the fastest mesh.

fsdp gathers each layer's weights in each pass over the layers, whatever the batch. mp reduces each
layer's activations, in proportion to the tokens of a device. So mp is faster for small batches and
fsdp for large ones; the two curves decide where they cross. The interval of a step spans hidden and
exposed communication.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mi300bench.fit.link import LinkModel
from mi300bench.schema.model import Interval, MeshTraffic
from mi300bench.schema.run_settings import Mesh

# Maps an operation and the size of a group to its curve.
Curves = Callable[[str, int], LinkModel]
# Passes over the weights of a layer: forward and backward.
WEIGHT_PASSES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshStep:
    """A mesh with the seconds of its predicted step.

    gather_s    gathering weights
    reduce_s    reducing activations
    gradient_s  reducing gradients
    seconds     the whole step
    """

    mesh: Mesh
    gather_s: float
    reduce_s: float
    gradient_s: float
    seconds: Interval
    evidence: tuple[str, ...]


def meshes(devices: int) -> list[Mesh]:
    """Return every mesh of `devices` devices."""
    divisors = [n for n in range(1, devices + 1) if devices % n == 0]
    return [
        Mesh(dp=dp, fsdp=f, mp=devices // dp // f)
        for dp in divisors
        for f in divisors
        if devices % (dp * f) == 0
    ]


def step_of(mesh: Mesh, traffic: MeshTraffic, curves: Curves, compute: Interval) -> MeshStep:
    """Return the step on `mesh`; `compute` has the seconds of one device's computation."""
    gather_s = reduce_s = gradient_s = error = 0.0
    evidence: list[str] = []
    if mesh.fsdp > 1:
        link = curves("all_gather", mesh.fsdp)
        gather_s = (
            WEIGHT_PASSES
            * traffic.parts
            * traffic.layers
            * link.seconds_of(traffic.weight_bytes / mesh.mp)
        )
        error, evidence = max(error, link.typical_error), [*evidence, *link.evidence]
    if mesh.mp > 1:
        link = curves("all_reduce", mesh.mp)
        message = traffic.token_bytes * traffic.tokens / (mesh.dp * mesh.fsdp * traffic.parts)
        reduce_s = traffic.all_reduces * traffic.parts * traffic.layers * link.seconds_of(message)
        error, evidence = max(error, link.typical_error), [*evidence, *link.evidence]
    if traffic.gradient_bytes and mesh.dp * mesh.fsdp > 1:
        link = curves("all_reduce", mesh.dp * mesh.fsdp)
        gradient_s = (
            traffic.parts
            * traffic.layers
            * link.seconds_of(traffic.gradient_bytes / traffic.layers)
        )
        error, evidence = max(error, link.typical_error), [*evidence, *link.evidence]
    wire = gather_s + reduce_s + gradient_s
    low = max(compute.low, wire / (1 + error))
    high = compute.high + wire * (1 + error)
    mid = min(max(compute.mid + wire, low), high)
    return MeshStep(
        mesh=mesh,
        gather_s=gather_s,
        reduce_s=reduce_s,
        gradient_s=gradient_s,
        seconds=Interval(low=low, mid=mid, high=high),
        evidence=tuple(dict.fromkeys(evidence)),
    )


def rank_meshes(
    candidates: Sequence[Mesh], traffic: MeshTraffic, curves: Curves, compute: Interval
) -> list[MeshStep]:
    """Return the meshes, fastest predicted step first.

    Of equally fast ones, that with fewer kinds of communication comes first.
    """
    rows = [step_of(mesh, traffic, curves, compute) for mesh in candidates]
    return sorted(
        rows,
        key=lambda row: (
            row.seconds.mid,
            (row.mesh.fsdp > 1) + (row.mesh.mp > 1) + (row.mesh.dp > 1),
        ),
    )
