"""What a candidate's step on a mesh is predicted to take.

A step is one device's share of the computation, stretched by each change, and the collectives of its mesh.
Communication and computation may hide each other or not: the interval spans both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mi300bench.fit.step import SimulatedStep
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.model import Interval, MeshTraffic, Prediction
from mi300bench.schema.run_settings import Mesh
from mi300bench.strategies.mesh.placement import DP, FSDP, MP
from mi300bench.strategies.mesh.traffic import Curves, step_of

# By how much something stretches the computation, and the records that show it.
Stretch = tuple[float, tuple[str, ...]]
UNCHANGED: Stretch = (1.0, ())
Identity = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeShare:
    """What one device computes in the default's step: seconds with their bounds, and where they come from.

    `run` is what the step took that was run, of all devices or, where they are virtual, of one with its share of the batch.
    """

    seconds: Interval
    evidence: tuple[str, ...]
    run: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshPredictor:
    """Seconds of a candidate's step.

    effects  what an option of a knob does to the computation, by the option's identity
    widths   what a mesh's narrower products do to it
    traffic  what a candidate's step exchanges
    """

    default: Mesh
    share: ComputeShare
    effects: Mapping[Identity, Stretch]
    widths: Mapping[Mesh, Stretch]
    curves: Curves
    traffic: Callable[[Candidate], MeshTraffic]

    def mesh(self, candidate: Candidate) -> Mesh:
        """Return the candidate's mesh."""
        keys, default = candidate.keys, self.default
        return Mesh(
            dp=keys.get(DP, default.dp),
            fsdp=keys.get(FSDP, default.fsdp),
            mp=keys.get(MP, default.mp),
        )

    def changes(self, candidate: Candidate) -> Stretch:
        """Return by how much a candidate's changes on one device stretch its computation, and from which records."""
        factor, evidence = UNCHANGED
        for option in candidate.options.values():
            change, more = self.effects.get(option.identity, UNCHANGED)
            factor, evidence = factor * change, (*evidence, *more)
        return factor, evidence

    def predict(self, candidate: Candidate) -> Prediction:
        """Return the seconds of the candidate's step, from communication hidden to not hidden at all."""
        mesh = self.mesh(candidate)
        width, narrow = self.widths.get(mesh, UNCHANGED)
        factor, evidence = self.changes(candidate)
        compute = scaled(self.share.seconds, width * factor)
        step = step_of(mesh, self.traffic(candidate), self.curves, compute)
        used = dict.fromkeys((*self.share.evidence, *narrow, *evidence, *step.evidence))
        return Prediction(value=step.seconds, evidence=tuple(used))

    def simulate(self, candidate: Candidate) -> SimulatedStep:
        """Return the candidate's step for ranking."""
        return SimulatedStep(
            step_s=self.predict(candidate).value.mid, exposed_s=0.0, transfers=()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneDevicePredictor:
    """Seconds of the run in which the default's step was seen on one device, changed as the candidate is but for its mesh."""

    whole: MeshPredictor

    def predict(self, candidate: Candidate) -> Prediction:
        """Return the seconds of the run with the candidate's changes."""
        share = self.whole.share
        assert share.run is not None
        factor, evidence = self.whole.changes(candidate)
        return Prediction(value=scaled(share.run, factor), evidence=(*share.evidence, *evidence))

    def simulate(self, candidate: Candidate) -> SimulatedStep:
        """Return the run for ranking."""
        return SimulatedStep(
            step_s=self.predict(candidate).value.mid, exposed_s=0.0, transfers=()
        )


def scaled(interval: Interval, factor: float) -> Interval:
    """Return an interval times a factor."""
    return Interval(
        low=interval.low * factor, mid=interval.mid * factor, high=interval.high * factor
    )
