"""The predicted step of a candidate: the measured step of its layout, times each other change."""

from collections.abc import Mapping
from dataclasses import dataclass

from mi300bench.fit.packing import Caps
from mi300bench.fit.step import Factors, SimulatedStep, StepModel
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.model import Prediction
from mi300bench.schema.record import World
from mi300bench.strategies.ddp.buckets import BUCKETS, DEFAULT
from mi300bench.strategies.ddp.layouts import ACCUMULATE, MICRO_BATCH, Layout

# The identity of an option: its keys with their values.
Identity = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataParallelPredictor:
    """A step model for each world and micro-batch, and the effect of each single change.

    `effects` has the factors of each option, by the option's identity.
    """

    default: Layout
    models: Mapping[tuple[World, int], StepModel]
    effects: Mapping[Identity, Factors]

    @property
    def default_model(self) -> StepModel:
        """Return the step model of the default config."""
        return self.models[self.default.world, self.default.micro_batch]

    def model(self, candidate: Candidate) -> StepModel:
        """Return the candidate's step model."""
        keys = candidate.keys
        world = candidate.world or self.default.world
        model = self.models[world, keys.get(MICRO_BATCH, self.default.micro_batch)]
        factors = Factors()
        for option in candidate.options.values():
            if option.identity in self.effects:
                factors = factors * self.effects[option.identity]
        return model.stretched(factors)

    def _settings(self, candidate: Candidate) -> tuple[Caps, int]:
        keys = candidate.keys
        return keys.get(BUCKETS, DEFAULT), keys.get(ACCUMULATE, self.default.accumulate)

    def simulate(self, candidate: Candidate) -> SimulatedStep:
        """Return the candidate's step."""
        caps, accumulate = self._settings(candidate)
        return self.model(candidate).simulate(caps, accumulate=accumulate)

    def predict(self, candidate: Candidate) -> Prediction:
        """Return the seconds of the candidate's step, with an interval."""
        caps, accumulate = self._settings(candidate)
        return self.model(candidate).predict(caps, accumulate=accumulate)
