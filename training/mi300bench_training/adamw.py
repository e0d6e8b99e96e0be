"""AdamW's settings, with clipping, warm-up and decay, as every trainer has them."""

from dataclasses import dataclass

from mi300bench.errors import PlanError
from mi300bench.schema.config_tree import require_at_least
from mi300bench.schema.run_settings import Optimizer


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
                f"beta1 and beta2 must be from 0 to under 1 (got {self.beta1}, {self.beta2})",
                hint="such as beta1 0.9, beta2 0.95",
            )
        if self.clip <= 0:
            raise PlanError(f"clip must be over 0 (got {self.clip})", hint="a norm such as 1.0")

    def group(self, *, final_share: float = 0.0) -> Optimizer:
        """Return the settings as exporters read them; the rate falls to `final_share` of `lr`."""
        return Optimizer(
            lr=self.lr,
            betas=(self.beta1, self.beta2),
            weight_decay=self.weight_decay,
            warmup_steps=self.warmup_steps,
            clip=self.clip,
            final_share=final_share,
        )
