"""What JAX is told before it starts on a GPU, derived from the compiled step and the curves, not searched."""

from collections.abc import Iterator

from mi300bench.hw import xla_flags
from mi300bench.measurement.settings import Settings
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.config import Choice, ChoiceBasis
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh.memory import DeviceMemory
from mi300bench.strategies.mesh.placement import model_of
from mi300bench.strategies.mesh.predictor import MeshPredictor
from mi300bench.units import MIB, format_bytes

MEMORY_FRACTION, COMBINE_BYTES = "launch.memory_fraction", "launch.combine_bytes"
# JAX's own share of the device for its pool; the most that a pool may take; what a pool keeps free above the compiler's bound.
DEFAULT_FRACTION, MOST_FRACTION, SPARE = 0.75, 0.95, 1.05
# A joined collective should spend no more than a tenth of its time on latency.
LATENCY_SHARE = 0.1


def choices(
    job: Job, predictor: MeshPredictor, memory: DeviceMemory, pick: Candidate, settings: Settings
) -> Iterator[tuple[str, Choice]]:
    """Yield the choices by key; none on a CPU, which has no pool, and whose collectives are not joined."""
    if job.world.device == "cpu":
        return
    record = memory.compiled(pick)
    if record is not None and job.memory_limit is not None:
        yield MEMORY_FRACTION, _fraction(memory.held(pick), job.memory_limit, record.id)
    mesh = predictor.mesh(pick)
    if mesh.fsdp < 2:
        return
    unknown = xla_flags.unknown(xla_flags.combining(MIB))
    if unknown:
        settings.say(
            f"note: the installed jaxlib does not know {', '.join(unknown)}: combining is left alone"
        )
        return
    link = predictor.curves("all_gather", mesh.fsdp)
    layer = model_of(job).traffic(job.with_keys(pick.keys)).weight_bytes / mesh.mp
    size = combine_bytes(link.latency_s, link.bandwidth, layer)
    why = (
        f"An all_gather among {mesh.fsdp} spends a tenth of its time on latency at {format_bytes(size)}: "
        "joining smaller ones pays."
        if size
        else f"A layer's weights are {format_bytes(layer)}: the curve shows no smaller size at which "
        "joining pays, so XLA's own stays."
    )
    yield (
        COMBINE_BYTES,
        Choice(
            value=size,
            default=0,
            evidence=link.evidence,
            why=why,
            doubts=("derived from the curve, not run: the compiler joins by its own order as well",),
            basis=ChoiceBasis.DERIVED,
        ),
    )


def _fraction(bound: float, limit: float, identity: str) -> Choice:
    fraction = memory_fraction(bound, limit)
    enough = (
        f"JAX's own {DEFAULT_FRACTION} is not enough, {fraction:g} is"
        if fraction
        else f"JAX's own {DEFAULT_FRACTION} is enough"
    )
    return Choice(
        value=fraction,
        default=0.0,
        evidence=(identity,),
        why=f"The compiled step needs at most {format_bytes(bound)} of {format_bytes(limit)}: {enough}.",
        doubts=("the bound is the CPU compiler's: the GPU's may be lower",),
        basis=ChoiceBasis.DERIVED,
    )


def combine_bytes(latency_s: float, bandwidth: float, layer_bytes: float) -> int:
    """Return up to how many bytes joining collectives pays, in whole MiB: where latency is a tenth of a message's time.

    0 where even a message of a whole layer spends more than that on latency: then XLA's own threshold says as much as can be said.
    """
    wanted = latency_s * bandwidth * (1 - LATENCY_SHARE) / LATENCY_SHARE
    return int(-(-wanted // MIB)) * MIB if 0 < wanted <= layer_bytes else 0


def memory_fraction(bound_bytes: float, device_bytes: float) -> float:
    """Return the share of the device that the pool needs: 0 where JAX's own is enough, 0.95 at most."""
    needed = SPARE * bound_bytes / device_bytes
    return 0.0 if needed <= DEFAULT_FRACTION else min(MOST_FRACTION, -(-needed * 20 // 1) / 20)
