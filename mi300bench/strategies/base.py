"""What a strategy is: a kind of parallelism, with its measuring stages, predictor and memory check.

All strategies share one tuning loop (`mi300bench.tuning`). A strategy never runs the loop. It
answers questions: what has to be measured, what a step is predicted to take, whether a candidate
fits, which point trains it, and what a run on this machine can show of it.
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
    """Points that are measured together, and their purpose."""

    purpose: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of the command line that a strategy turns into a world.

    With `is_absent` the job is for another machine, so nothing is checked against this one.
    """

    device: str
    ranks: int | None = None
    launcher: str = ""
    is_absent: bool = False


class Predictor(Protocol):
    """Predicts the seconds of a candidate's step."""

    def simulate(self, candidate: Candidate) -> SimulatedStep:
        """Return the candidate's step; its seconds rank the candidates."""

    def predict(self, candidate: Candidate) -> Prediction:
        """Return the seconds with an interval, evidence and doubts."""


class MemoryCheck(abc.ABC):
    """Whether a candidate fits into memory. `settle` measures or compiles doubtful cases."""

    @abc.abstractmethod
    def held(self, candidate: Candidate) -> float:
        """Return the bytes that a rank or device of the candidate needs, as far as known."""

    @abc.abstractmethod
    def fits(self, candidate: Candidate) -> bool:
        """Return whether the candidate stays under the limit, as far as known."""

    @abc.abstractmethod
    def settle(self, candidate: Candidate, *, may_run: bool) -> bool:
        """Measure or compile `candidate` if its need is in doubt; return whether it fits.

        `may_run` allows to run a process of it.
        """

    @abc.abstractmethod
    def sentence(self, candidate: Candidate) -> str:
        """Return the candidate's need and its limit as a sentence."""

    @abc.abstractmethod
    def refusal(self, candidates: Sequence[Candidate]) -> PlanError:
        """Return the error that none of `candidates` fits.

        It names the candidate that needs least, and what to change.
        """

    def evidence(self) -> tuple[str, ...]:
        """Return the ids of the records behind every candidate's memory."""
        return ()

    def records(self) -> tuple[Measurement, ...]:
        """Return the records that `settle` has made."""
        return ()

    def doubts(self) -> tuple[str, ...]:
        """Return why the bytes may be wrong."""
        return ()

    def notes(self) -> tuple[str, ...]:
        """Return what could not be checked."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The knobs that the records can weigh, what predicts a candidate's step, and whether it fits.

    first               the record that gives the config its node, device and origin
    predictor           predicts the whole step
    observed_predictor  predicts what a run on this machine shows of the step, if not all of it
    readings            of the default's step, by name: figures for the trainer's doubts
    step_model          of the default's step, where ranks exchange gradients in buckets
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
    """A kind of parallelism. It has no state: each method gets the job."""

    name: str

    @abc.abstractmethod
    def place(
        self, spec: TrainerSpec, config: Any, keys: Mapping[str, Any], request: Request
    ) -> tuple[World, Any]:
        """Return the world of a job, and its default config with `keys` set."""

    @abc.abstractmethod
    def stages(self, job: Job) -> list[Stage]:
        """Return what has to be measured.

        The first stage is necessary; each later one adds options to the search.
        """

    @abc.abstractmethod
    def space(self, job: Job, records: Sequence[Measurement], settings: Settings) -> Space:
        """Return the space that `records` can weigh.

        `RecordError` names the command that measures what is missing.
        """

    @abc.abstractmethod
    def step_point(self, job: Job, candidate: Candidate, stop: Stop) -> Point:
        """Return the point that trains steps of a candidate, as far as this machine can."""

    @abc.abstractmethod
    def published_records(self, job: Job, device: PublishedDevice) -> Iterator[Measurement]:
        """Yield records from published figures of a device, in place of measurements."""

    def labelled(self, job: Job, settings: Settings, worlds: Iterable[World]) -> Settings:
        """Return the settings for points in `worlds`, with another origin if they are emulated."""
        return settings

    def is_possible(self, job: Job, candidate: Candidate) -> bool:
        """Return whether the trainer accepts the candidate's keys."""
        return True

    def observable(self, job: Job, candidate: Candidate) -> Candidate:
        """Return the part of the candidate that a run on this machine shows."""
        return candidate

    def unobservable(self, job: Job) -> Mapping[str, str]:
        """Return the knobs whose effect no run on this machine shows, with the reason."""
        return {}

    def is_runnable(self, job: Job, memory: MemoryCheck, candidate: Candidate) -> bool:
        """Return whether the candidate's step point can run here."""
        return memory.fits(candidate)

    def run_factor(self) -> float:
        """Return the time of a fresh run over that of its steps, to plan the budget."""
        return 1.0

    def part_that_ran(self, job: Job) -> str:
        """Return which part of a step the fresh runs were; empty for whole steps."""
        return ""

    def derived(
        self, job: Job, space: Space, pick: Candidate, settings: Settings
    ) -> Mapping[str, Choice]:
        """Return the choices that follow from the pick without a search."""
        return {}

    def launch_keys(self, job: Job, pick: Candidate) -> Mapping[str, Any]:
        """Return the keys of the config that define how the pick is launched."""
        return {}

    def ranks(self, job: Job, pick: Candidate) -> int:
        """Return the ranks, or devices, of the pick."""
        return (pick.world or job.world).ranks

    def origin_of(self, job: Job, first: Measurement) -> tuple[str, str]:
        """Return origin and source of a config for the job."""
        return str(first.origin), first.source
