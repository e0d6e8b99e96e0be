"""How a run ends, as data. The outcome and the reason of its record follow from it."""

import math
from enum import StrEnum

from mi300bench.schema.record import Outcome


class Ending(StrEnum):
    """How a run ends."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    DIVERGED = "diverged"

    @property
    def outcome(self) -> Outcome:
        """Return the outcome of the run's record."""
        return OUTCOMES[self]

    def reason(self, *, step: int, steps: int, loss: float) -> str:
        """Return the reason in the run's record; empty for a finished run."""
        match self:
            case Ending.FINISHED:
                return ""
            case Ending.INTERRUPTED:
                return f"interrupted after {step} of {steps} steps"
            case Ending.DIVERGED:
                return f"the loss became {loss} in step {step}"


OUTCOMES = {
    Ending.FINISHED: Outcome.OK,
    Ending.INTERRUPTED: Outcome.FAILED,
    Ending.DIVERGED: Outcome.WRONG_ANSWER,
}


def ending_after(*, step: int, steps: int, loss: float, is_interrupted: bool) -> Ending | None:
    """Return how the run ends after `step` of `steps` steps; None while it continues.

    A run that is interrupted in its last step has finished.
    """
    if not math.isfinite(loss):
        return Ending.DIVERGED
    if step == steps:
        return Ending.FINISHED
    return Ending.INTERRUPTED if is_interrupted else None


def is_save_due(*, step: int, every: int, ending: Ending | None) -> bool:
    """Return whether to save after `step`: every `every` steps and at the end.

    A run that diverged is not saved: --resume would only diverge again.
    """
    if ending is Ending.DIVERGED:
        return False
    return ending is not None or step % every == 0
