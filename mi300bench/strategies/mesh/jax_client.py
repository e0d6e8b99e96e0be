"""JAX's settings on a GPU: memory pool and combining of collectives.

They are derived from the compiled step and from the curves; they are not searched.
"""

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
# JAX's default share of the device for its memory pool; the largest share; and the size of the pool
# over the compiler's bound.
DEFAULT_FRACTION, MOST_FRACTION, SPARE = 0.75, 0.95, 1.05
# A combined collective should spend at most a tenth of its time on latency.
LATENCY_SHARE = 0.1


def choices(
    job: Job, predictor: MeshPredictor, memory: DeviceMemory, pick: Candidate, settings: Settings
) -> Iterator[tuple[str, Choice]]:
    """Yield the choices by key; none on a CPU, which has no memory pool."""
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
            f"note: the installed jaxlib does not know {', '.join(unknown)}, so combining is not "
            "tuned"
        )
        return
    link = predictor.curves("all_gather", mesh.fsdp)
    layer = model_of(job).traffic(job.with_keys(pick.keys)).weight_bytes / mesh.mp
    size = combine_bytes(link.latency_s, link.bandwidth, layer)
    why = (
        f"An all_gather among {mesh.fsdp} devices spends a tenth of its time on latency at "
        f"{format_bytes(size)}, so smaller ones should be combined."
        if size
        else f"The curve shows no size up to {format_bytes(layer)}, the weights of a layer, at "
        "which combining pays, so XLA's default stays."
    )
    yield (
        COMBINE_BYTES,
        Choice(
            value=size,
            default=0,
            evidence=link.evidence,
            why=why,
            doubts=("derived from the curve and not run: the order of the program also matters",),
            basis=ChoiceBasis.DERIVED,
        ),
    )


def _fraction(bound: float, limit: float, identity: str) -> Choice:
    fraction = memory_fraction(bound, limit)
    enough = (
        f"JAX's default share of {DEFAULT_FRACTION} is too small, {fraction:g} is enough"
        if fraction
        else f"JAX's default share of {DEFAULT_FRACTION} is enough"
    )
    return Choice(
        value=fraction,
        default=0.0,
        evidence=(identity,),
        why=f"The compiled step needs at most {format_bytes(bound)} of {format_bytes(limit)}: "
        f"{enough}.",
        doubts=("the bound is from the CPU compiler; that of the GPU may be lower",),
        basis=ChoiceBasis.DERIVED,
    )


def combine_bytes(latency_s: float, bandwidth: float, layer_bytes: float) -> int:
    """Return the size in whole MiB up to which collectives should be combined.

    At this size latency is a tenth of a message's time. 0 keeps XLA's default, if latency is a
    larger share even for the weights of a whole layer.
    """
    wanted = latency_s * bandwidth * (1 - LATENCY_SHARE) / LATENCY_SHARE
    return int(-(-wanted // MIB)) * MIB if 0 < wanted <= layer_bytes else 0


def memory_fraction(bound_bytes: float, device_bytes: float) -> float:
    """Return the share of the device that the pool needs, at most 0.95; 0 keeps JAX's default."""
    needed = SPARE * bound_bytes / device_bytes
    return 0.0 if needed <= DEFAULT_FRACTION else min(MOST_FRACTION, -(-needed * 20 // 1) / 20)
