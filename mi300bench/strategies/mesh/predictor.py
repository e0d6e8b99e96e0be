"""The knobs of the LoRA trainer, and what they are predicted to do to a step on a mesh.

mesh             dp, fsdp and mp: what gathers weights and what reduces activations, from the curves of the collectives
remat            what is kept for the backward pass: bytes against computing again
unroll           layers a step of the scan
attention_block  queries at once
loss_chunk       tokens whose logits exist at once
batch            parts of the batch, one after the other: weights are gathered for each, so only where memory asks for it
shapes           a longer sequence and fewer of them, or the other way round, at the same tokens a step
precision        of the frozen weights and the activations
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mi300bench.fit.step import SimulatedStep
from mi300bench.schema.candidate import Candidate, Knob, Option
from mi300bench.schema.doubt import Doubt
from mi300bench.schema.model import Interval, Prediction
from mi300bench.strategies.mesh.traffic import Curves, Layers, Mesh, step_of

DP, FSDP, MP = "mesh.dp", "mesh.fsdp", "mesh.mp"
MESH_KEYS = (DP, FSDP, MP)
REMAT, UNROLL, BLOCK, CHUNK = (
    "compute.remat",
    "compute.unroll",
    "compute.attention_block",
    "compute.loss_chunk",
)
BATCH, LENGTH, ACCUMULATE, PRECISION = "data.batch", "data.seq_len", "data.accumulate", "precision"
COMBINE, FRACTION = "launch.combine_bytes", "launch.memory_fraction"
KNOBS = ("mesh", "remat", "unroll", "attention_block", "loss_chunk", "batch", "shapes", "precision")
REMATS = ("dots", "none", "full")  # of equal ones that which keeps less
UNROLLS, BLOCKS, PARTS = (2, 4), (64, 128, 256, 512, 1024), (2, 4)
LEAST_CHUNK = 64
# FLOP of a step over those without computing anything again: forward and input gradients are two equal parts.
AGAIN = {"none": 1.0, "dots": 1.0, "full": 1.5}
# JAX's own share of the device for its pool; the most that a pool may take; what a pool keeps free above the compiler's bound.
DEFAULT_FRACTION, MOST_FRACTION, SPARE = 0.75, 0.95, 1.05
# A joined collective should spend no more than a tenth of its time on latency.
LATENCY_SHARE = 0.1


def mesh_knob(meshes: Iterable[Mesh], default: Mesh) -> Knob:
    """Return the knob of meshes."""
    others = [Option(keys={DP: m.dp, FSDP: m.fsdp, MP: m.mp}) for m in meshes if m != default]
    return Knob(name="mesh", options=(Option(), *others))


def length_knob(batch: int, length: int, longest: int) -> Knob:
    """Return the knob of sequence lengths at the same tokens a step: doubled and halved from the default."""
    options = [Option()]
    for factor in (2, 4):
        if batch % factor == 0 and length * factor <= longest:
            options.append(Option(keys={LENGTH: length * factor, BATCH: batch // factor}))
        if length % factor == 0 and length // factor >= LEAST_CHUNK:
            options.append(Option(keys={LENGTH: length // factor, BATCH: batch * factor}))
    return Knob(name="shapes", options=tuple(options))


def single_changes(
    config: Any, *, is_short_of_memory: bool, precisions: Iterable[str]
) -> dict[str, list[Any]]:
    """Return the values to weigh for each key of one device, the default's left out."""
    compute, data = config.compute, config.data
    tokens = data.batch * data.seq_len // config.mesh.devices
    chunks = sorted({tokens // share for share in (2, 4) if tokens // share >= LEAST_CHUNK})
    found: dict[str, list[Any]] = {
        REMAT: [name for name in REMATS if name != compute.remat],
        UNROLL: [n for n in UNROLLS if n != compute.unroll and config.model.layers % n == 0],
        BLOCK: [n for n in BLOCKS if n != compute.attention_block and n <= data.seq_len],
        CHUNK: [n for n in chunks if n != compute.loss_chunk],
        PRECISION: [name for name in precisions if name != config.precision],
    }
    if is_short_of_memory:
        found[ACCUMULATE] = [n for n in PARTS if data.batch % (n * data.accumulate) == 0]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one device computes in the default's step: seconds with their bounds, and where they come from.

    `run` is what the step took that was seen, of all devices or, where they are virtual, of one with its share of the batch.
    """

    seconds: Interval
    evidence: tuple[str, ...]
    run: Interval | None = None
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshPredictor:
    """A step: one device's share of the computation, stretched by each change, and the collectives of its mesh.

    `effects` are factors of single changes, `widths` of a mesh's narrower products; `layers_of` is what a candidate moves.
    """

    default: Mesh
    share: Share
    effects: Mapping[tuple[str, Any], tuple[float, tuple[str, ...]]]
    widths: Mapping[Mesh, tuple[float, tuple[str, ...]]]
    curves: Curves
    layers_of: Callable[[Candidate], Layers]

    def mesh(self, candidate: Candidate) -> Mesh:
        """Return the candidate's mesh."""
        keys = candidate.keys
        return Mesh(
            dp=keys.get(DP, self.default.dp),
            fsdp=keys.get(FSDP, self.default.fsdp),
            mp=keys.get(MP, self.default.mp),
        )

    def _changed(self, candidate: Candidate) -> tuple[float, tuple[str, ...]]:
        """Return by how much a candidate's changes on one device stretch its computation, and from which records."""
        factor, evidence = 1.0, tuple[str, ...]()
        for key, value in candidate.keys.items():
            change, more = self.effects.get((key, value), (1.0, ()))
            factor, evidence = factor * change, (*evidence, *more)
        return factor, evidence

    def predict_alone(self, candidate: Candidate) -> Prediction:
        """Return the seconds of the run in which the default's step was seen, changed as the candidate is but for its mesh."""
        assert self.share.run is not None
        factor, evidence = self._changed(candidate)
        return Prediction(
            value=_times(self.share.run, factor), evidence=(*self.share.evidence, *evidence)
        )

    def predict(self, candidate: Candidate) -> Prediction:
        """Return the seconds of the candidate's step, from communication hidden to not hidden at all."""
        mesh, share = self.mesh(candidate), self.share
        width, narrow = self.widths.get(mesh, (1.0, ()))
        factor, evidence = self._changed(candidate)
        evidence = (*narrow, *evidence)
        compute = _times(share.seconds, width * factor)
        step = step_of(mesh, self.layers_of(candidate), self.curves, compute)
        used = tuple(dict.fromkeys((*share.evidence, *evidence, *step.evidence)))
        return Prediction(value=step.seconds, evidence=used, doubts=share.doubts)

    def simulate(self, candidate: Candidate) -> SimulatedStep:
        """Return the candidate's step for ranking."""
        return SimulatedStep(step_s=self.predict(candidate).value.mid, exposed_s=0.0, transfers=())


def _times(interval: Interval, factor: float) -> Interval:
    return Interval(
        low=interval.low * factor, mid=interval.mid * factor, high=interval.high * factor
    )


def combine_bytes(latency_s: float, bandwidth: float, layer_bytes: float) -> int:
    """Return up to how many bytes joining collectives pays, in whole MiB: where latency is a tenth of a message's time.

    0 where even a message of a whole layer spends more than that on latency: then XLA's own threshold says as much as can be said.
    """
    wanted = latency_s * bandwidth * (1 - LATENCY_SHARE) / LATENCY_SHARE
    mib = 1 << 20
    return int(-(-wanted // mib)) * mib if 0 < wanted <= layer_bytes else 0


def memory_fraction(bound_bytes: float, device_bytes: float) -> float:
    """Return the share of the device that the pool needs: JAX's default where that is enough, 0.95 at most."""
    needed = SPARE * bound_bytes / device_bytes
    return 0.0 if needed <= DEFAULT_FRACTION else min(MOST_FRACTION, -(-needed * 20 // 1) / 20)
