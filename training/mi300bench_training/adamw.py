"""AdamW's settings, with clipping, warm-up and decay, as every trainer has them."""

from dataclasses import dataclass

from mi300bench.errors import PlanError
from mi300bench.schema.config_tree import require_at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamWConfig:
    """AdamW reaches `lr` after `warmup_steps`; gradients are clipped to the norm `clip`."""

    lr: float
    beta1: float = 0.9
    beta2: float
    weight_decay: float
    warmup_steps: int = 10
    clip: float = 1.0

    def __post_init__(self) -> None:
        require_at_least(self, 0, "lr", "weight_decay", "warmup_steps")
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise PlanError(
                f"beta1={self.beta1}, beta2={self.beta2} average nothing",
                hint="both from 0 to under 1",
            )
        if self.clip <= 0:
            raise PlanError(
                f"clip={self.clip} leaves no gradient", hint="a norm over 0, such as 1.0"
            )
