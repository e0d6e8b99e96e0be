"""The learning rate over a run. Without a framework, so that every trainer and test can use it."""

import math
from fractions import Fraction


def warmup_cosine(
    step: int, *, peak: float, warmup_steps: int, steps: int, floor: Fraction
) -> float:
    """Return the rate of `step` (from 0): linear warm-up to `peak`, then a cosine to a floor.

    The last step of the warm-up has the peak. `floor` is a fraction, so that it and 1 - floor are
    both rounded once.
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = (step - warmup_steps) / max(1, steps - warmup_steps)
    cosine = 0.5 * (1 + math.cos(min(1.0, progress) * math.pi))
    return peak * (float(floor) + float(1 - floor) * cosine)
