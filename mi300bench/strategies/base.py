"""What a strategy is: a kind of parallelism, with its measuring stages, its predictor and its memory.

The tuning loop (`mi300bench.tuning`) is one for all of them. A strategy answers its questions and never
runs the loop: what has to be measured, what a candidate is predicted to take, whether it fits, which
point trains it, what of it a run on this machine can show.
"""

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mi300bench.errors import PlanError
from mi300bench.fit.step import SimulatedStep
from mi300bench.measurement.settings import Settings
from mi300bench.published.figures import PublishedDevice
from mi300bench.schema.candidate import Candidate, Knob
from mi300bench.schema.config import Choice
from mi300bench.schema.model import Prediction
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.record import Measurement, World
from mi300bench.schema.trainer import TrainerSpec
from mi300bench.strategies.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Points that are measured together, and what they are for."""

    purpose: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Where a job is to run: options of the command line that a strategy turns into a world.

    `ranks` and `launcher` as given; `is_absent`: the machine is not this one, so nothing is checked.
    """

    device: str
    ranks: int | None = None
    launcher: str = ""
    is_absent: bool = False


class Predictor(Protocol):
    """Seconds of a candidate's step."""

    def simulate(self, candidate: Candidate) -> SimulatedStep:
        """Return the step for ranking."""

    def predict(self, candidate: Candidate) -> Prediction:
        """Return the seconds with an interval, evidence and doubts."""


class MemoryCheck(abc.ABC):
    """Whether a candidate fits. What is not known well enough is found out by `settle`."""

    @abc.abstractmethod
    def held(self, candidate: Candidate) -> float:
        """Return the bytes that a rank or device of the candidate is taken to hold."""

    @abc.abstractmethod
    def fits(self, candidate: Candidate) -> bool:
        """Return whether the candidate stays under the limit, as far as it is known."""

    @abc.abstractmethod
    def settle(self, candidate: Candidate, *, may_run: bool) -> bool:
        """Find out what `candidate` needs where that is in doubt; return whether it still fits.

        `may_run`: a process of it may be run for that.
        """

    @abc.abstractmethod
    def sentence(self, candidate: Candidate) -> str:
        """Return what the candidate holds and may hold, for a person."""

    @abc.abstractmethod
    def refusal(self, candidates: Sequence[Candidate]) -> PlanError:
        """Return the error that none of `candidates` fits: the nearest of them, and what to change."""

    def evidence(self) -> tuple[str, ...]:
        """Return the ids of the records that the memory of every candidate rests on."""
        return ()

    def records(self) -> tuple[Measurement, ...]:
        """Return the records that `settle` has made."""
        return ()

    def doubts(self) -> tuple[str, ...]:
        """Return why the bytes may be wrong."""
        return ()

    def notes(self) -> tuple[str, ...]:
        """Return what could not be found out."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The knobs that the records can weigh, what predicts a candidate's step, and whether it fits.

    first        the record whose node, device and origin the config carries
    predictor    of the whole step; `observed_predictor` of what a run on this machine shows of it
    readings     of the default's step, by name: what the trainer's doubts mention
    step_model   of the default's step, where ranks exchange gradients in buckets
    """

    knobs: tuple[Knob, ...]
    default: Candidate
    predictor: Predictor
    memory: MemoryCheck
    first: Measurement
    notes: tuple[str, ...] = ()
    observed_predictor: Predictor | None = None
    readings: Mapping[str, float] = field(default_factory=dict)
    knob_doubts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    knob_evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    step_model: Any = None

    def seconds(self, candidate: Candidate) -> float:
        """Return the predicted seconds for the default's useful work in a step."""
        return self.predictor.simulate(candidate).step_s / candidate.work


class Strategy(abc.ABC):
    """A kind of parallelism. Instances hold nothing: a job is handed to each method."""

    name: str

    @abc.abstractmethod
    def place(
        self, spec: TrainerSpec, config: Any, keys: Mapping[str, Any], request: Request
    ) -> tuple[World, Any]:
        """Return the world of a job, and its default config with `keys` set."""

    @abc.abstractmethod
    def stages(self, job: Job) -> list[Stage]:
        """Return what has to be measured: without the first stage there is no choice; each later one
        widens the search."""

    @abc.abstractmethod
    def space(self, job: Job, records: Sequence[Measurement], settings: Settings) -> Space:
        """Return the space that `records` can weigh; `RecordError` names the command that measures what is missing."""

    @abc.abstractmethod
    def step_point(self, job: Job, candidate: Candidate, stop: Stop) -> Point:
        """Return the point that trains whole steps of a candidate, as far as they can be run here."""

    @abc.abstractmethod
    def published_records(self, job: Job, device: PublishedDevice) -> Iterator[Measurement]:
        """Yield records that stand in for measurements of a device, from published figures."""

    def labelled(self, job: Job, settings: Settings, worlds: Iterable[World]) -> Settings:
        """Return the settings for points in `worlds`, with their origin where it is not what was asked for."""
        return settings

    def is_possible(self, job: Job, candidate: Candidate) -> bool:
        """Return whether the trainer can have the candidate's keys."""
        return True

    def observable(self, job: Job, candidate: Candidate) -> Candidate:
        """Return the part of the candidate that a run on this machine shows."""
        return candidate

    def unobservable(self, job: Job) -> Mapping[str, str]:
        """Return the knobs that no run on this machine shows, with the reason."""
        return {}

    def is_runnable(self, job: Job, memory: MemoryCheck, candidate: Candidate) -> bool:
        """Return whether the candidate's step point can run here."""
        return memory.fits(candidate)

    def run_factor(self) -> float:
        """Return by how much a fresh run of a step takes longer than its prediction, for budgets."""
        return 1.0

    def part_that_ran(self, job: Job) -> str:
        """Return what of a step the fresh runs were; empty where they were whole steps."""
        return ""

    def derived(
        self, job: Job, space: Space, pick: Candidate, settings: Settings
    ) -> Mapping[str, Choice]:
        """Return the choices that follow from the pick and were not searched."""
        return {}

    def launch_keys(self, job: Job, pick: Candidate) -> Mapping[str, Any]:
        """Return the keys of the config that say how the pick is started."""
        return {}

    def ranks(self, job: Job, pick: Candidate) -> int:
        """Return the ranks, or devices, of the pick."""
        return (pick.world or job.world).ranks

    def origin_of(self, job: Job, first: Measurement) -> tuple[str, str]:
        """Return origin and source of a config for the job."""
        return str(first.origin), first.source
