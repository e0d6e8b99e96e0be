"""The seconds of a compiled step on a device, and the largest batch that fits."""

from collections.abc import Callable, Sequence
from typing import Any

from mi300bench.published.assumptions import LEAST_SHARE, MOST_SHARE
from mi300bench.published.figures import PublishedDevice
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement, World
from mi300bench.schema.trainer import TrainerSpec
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh.compile_step import CompiledStep, compile_all
from mi300bench.strategies.mesh.evidence import base_predictor
from mi300bench.strategies.mesh.placement import BATCH

# The most doublings of the batch in the search for the largest that fits.
MOST_DOUBLINGS = 10


def seconds_from_figures(step: CompiledStep, device: PublishedDevice) -> Interval:
    """Return the seconds of a step from published figures of a device.

    Computation runs between two shares of the peak, communication at the published all_reduce busbw
    for the size of each group. The interval spans hidden and exposed communication.
    """
    peak, wire = device.fact(step.precision).value, 0.0
    for size, received in step.figures["among"].items():
        if int(size) > 1:
            wire += received / device.all_reduce_busbw(int(size))[0]
    slow, fast = (step.figures["flop"] / (share * peak) for share in (LEAST_SHARE, MOST_SHARE))
    low, high = max(fast, wire), slow + wire
    return Interval(low=low, mid=(low * high) ** 0.5, high=high)


def seconds_from_curves(
    spec: TrainerSpec, step: CompiledStep, records: Sequence[Measurement]
) -> tuple[Interval, tuple[str, ...]]:
    """Return the seconds of a step from JAX's records, and their ids.

    `RecordError` names missing records.
    """
    kinds = [record.world.device for record in records if record.probe.startswith("jax.")]
    world = World(
        device=kinds[0] if kinds else "cpu", ranks=step.mesh.devices, framework=spec.framework
    )
    predictor, _ = base_predictor(Job(spec=spec, config=step.config, world=world), records)
    prediction = predictor.predict(Candidate(options={}))
    return prediction.value, prediction.evidence


def largest_that_fits(
    spec: TrainerSpec, config: Any, limit: float, say: Callable[[str], None]
) -> CompiledStep | None:
    """Return the step with the largest batch that fits, at the config's sequence length.

    The batch doubles from one sequence for each group until the compiler's bound exceeds `limit`.
    """
    settings = spec.settings(config, 1)
    assert settings.mesh is not None
    first = settings.mesh.groups * settings.batch.accumulate
    best: CompiledStep | None = None
    for doubling in range(MOST_DOUBLINGS):
        tried = spec.override(config, {BATCH: first << doubling})
        (step,) = compile_all(spec, [tried])
        if step.error or step.bound > limit:
            break
        tokens = f"{step.batch.global_batch} x {step.batch.seq_len} tokens"
        say(f"{tokens} need at most {step.bound / 1e9:.1f} GB on each device")
        best = step
    else:
        say(f"larger batches than {first << MOST_DOUBLINGS - 1} were not tried")
    return best
