"""The settings of a tuned config of a trainer on a mesh, as typed values, for the exporters of JAX frameworks."""

from dataclasses import dataclass
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.export.exported import head_of
from mi300bench.schema.config import TunedConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshSettings:
    """A tuned LoRA config in our words. `batch` sequences of a step over all devices, in `accumulate` parts."""

    tuned: TunedConfig
    preset: str
    dp: int
    fsdp: int
    mp: int
    batch: int
    accumulate: int
    seq_len: int
    remat: str
    unroll: int
    attention_block: int
    loss_chunk: int
    is_bf16: bool
    rank: int
    alpha: float
    is_rslora: bool
    dropout: float
    targets: tuple[str, ...]
    lr: float
    betas: tuple[float, float]
    weight_decay: float
    warmup_steps: int
    clip: float
    steps: int
    seed: int
    weights: str
    adapter: str
    memory_fraction: float
    combine_bytes: int

    @property
    def devices(self) -> int:
        """Return how many devices the mesh has."""
        return self.dp * self.fsdp * self.mp

    def head(self) -> list[str]:
        """Return lines for the top of the text: where the values come from and how sure they are."""
        return head_of(self.tuned)


def mesh_settings_of(tuned: TunedConfig) -> MeshSettings:
    """Return the settings of a tuned config; `PlanError` names what it lacks."""
    try:
        c: Any = tuned.config
        mesh, data, compute, lora, rule, launch = (
            c[name] for name in ("mesh", "data", "compute", "lora", "optimizer", "launch")
        )
        return MeshSettings(
            tuned=tuned,
            preset=c["preset"],
            **{name: mesh[name] for name in ("dp", "fsdp", "mp")},
            **{name: data[name] for name in ("batch", "accumulate", "seq_len")},
            **{
                name: compute[name] for name in ("remat", "unroll", "attention_block", "loss_chunk")
            },
            is_bf16=c["precision"] == "bfloat16",
            rank=lora["rank"],
            alpha=lora["alpha"],
            is_rslora=lora["rslora"],
            dropout=lora["dropout"],
            targets=tuple(lora["targets"]),
            lr=rule["lr"],
            betas=(rule["beta1"], rule["beta2"]),
            weight_decay=rule["weight_decay"],
            warmup_steps=rule["warmup_steps"],
            clip=rule["clip"],
            steps=c["steps"],
            seed=c["seed"],
            weights=c["weights"],
            adapter=c["adapter"],
            memory_fraction=launch["memory_fraction"],
            combine_bytes=launch["combine_bytes"],
        )
    except KeyError as cause:
        raise PlanError(
            f"the config of {tuned.trainer} has no {cause} to export",
            hint=f"tune it: mi300bench tune {tuned.trainer}",
        ) from cause
    except TypeError as cause:
        raise PlanError(
            f"the config of {tuned.trainer} has no table where one should be: {cause}",
            hint=f"tune it: mi300bench tune {tuned.trainer}",
        ) from cause
