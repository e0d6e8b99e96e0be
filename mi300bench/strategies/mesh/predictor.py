"""The predicted step of a candidate on a mesh.

A step is one device's share of the computation, times the effect of each change, plus the
collectives of its mesh. The interval spans hidden and exposed communication.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mi300bench.fit.step import SimulatedStep
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.model import Interval, MeshTraffic, Prediction
from mi300bench.schema.run_settings import Mesh
from mi300bench.strategies.mesh.placement import DP, FSDP, MP
from mi300bench.strategies.mesh.traffic import Curves, step_of

# The factor of a change on the computation, and the ids of the records that show it.
Stretch = tuple[float, tuple[str, ...]]
UNCHANGED: Stretch = (1.0, ())
Identity = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeShare:
    """The computation of one device in the default's step: its seconds and their evidence.

    `run` is the measured step: that of all devices, or of one virtual device with its share.
    """

    seconds: Interval
    evidence: tuple[str, ...]
    run: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshPredictor:
    """Seconds of a candidate's step.

    effects  the factor of each option on the computation, by the option's identity
    widths   the factor of each mesh's narrower products
    traffic  the communication of a candidate's step
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
        """Return the factor of a candidate's changes on the computation, and its evidence."""
        factor, evidence = UNCHANGED
        for option in candidate.options.values():
            change, more = self.effects.get(option.identity, UNCHANGED)
            factor, evidence = factor * change, (*evidence, *more)
        return factor, evidence

    def predict(self, candidate: Candidate) -> Prediction:
        """Return the seconds of the candidate's step, from hidden to exposed communication."""
        mesh = self.mesh(candidate)
        width, narrow = self.widths.get(mesh, UNCHANGED)
        factor, evidence = self.changes(candidate)
        compute = scaled(self.share.seconds, width * factor)
        step = step_of(mesh, self.traffic(candidate), self.curves, compute)
        used = dict.fromkeys((*self.share.evidence, *narrow, *evidence, *step.evidence))
        return Prediction(value=step.seconds, evidence=tuple(used))

    def simulate(self, candidate: Candidate) -> SimulatedStep:
        """Return the candidate's step for ranking."""
        return SimulatedStep(step_s=self.predict(candidate).value.mid, exposed_s=0.0, transfers=())


@dataclass(frozen=True, slots=True, kw_only=True)
class OneDevicePredictor:
    """Seconds of a measured step of one device, with a candidate's changes except its mesh."""

    whole: MeshPredictor

    def predict(self, candidate: Candidate) -> Prediction:
        """Return the seconds of the measured step with the candidate's changes."""
        share = self.whole.share
        assert share.run is not None
        factor, evidence = self.whole.changes(candidate)
        return Prediction(value=scaled(share.run, factor), evidence=(*share.evidence, *evidence))

    def simulate(self, candidate: Candidate) -> SimulatedStep:
        """Return the step for ranking."""
        return SimulatedStep(step_s=self.predict(candidate).value.mid, exposed_s=0.0, transfers=())


def scaled(interval: Interval, factor: float) -> Interval:
    """Return an interval times a factor."""
    return Interval(
        low=interval.low * factor, mid=interval.mid * factor, high=interval.high * factor
    )
