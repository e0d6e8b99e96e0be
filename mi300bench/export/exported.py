"""What exporters share: the settings of a tuned config as typed values, and the text with its notes.

Nothing is dropped in silence: what a target cannot express is a note, which stands in the text where its format has
comments, and goes to the person in any case.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.schema.config import FRAMEWORK_DEFAULT, TunedConfig
from mi300bench.units import MIB

# torch's default of DistributedDataParallel's bucket_cap_mb, in MiB, and what a float32 gradient takes.
TORCH_DEFAULT_CAP_MIB, GRADIENT_BYTES = 25.0, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A target's text, and what a person must know about it."""

    text: str
    notes: tuple[str, ...] = ()


def head_of(tuned: TunedConfig) -> list[str]:
    """Return lines for the top of a text: where a config's values come from and how sure they are."""
    lines = [f"mi300bench: {tuned.trainer} on {tuned.node} ({tuned.device}), {tuned.origin} data"]
    if tuned.confirmed is None:
        return [*lines, "not confirmed by fresh runs: mi300bench autotune does that"]
    ratio = tuned.confirmed.ratio
    said = f"confirmed: {tuned.confirmed.candidate} against the default: {tuned.confirmed.verdict}, {ratio.mid:.3f} of its step"
    return [
        *lines,
        f"{said} ({ratio.low:.3f} to {ratio.high:.3f}) on {tuned.confirmed.runs} fresh runs each",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A tuned training config in our words. Buckets are MiB of float32 gradients; no caps is torch's own default."""

    tuned: TunedConfig
    ranks: int
    threads: int
    micro_batch: int
    accumulate: int
    seq_len: int
    steps: int
    seed: int
    is_bf16: bool
    recompute: str
    loss_chunk: int
    experts: str
    caps_mib: tuple[float, ...]
    lr: float
    betas: tuple[float, float]
    weight_decay: float
    warmup_steps: int
    clip: float

    @property
    def global_batch(self) -> int:
        """Return the sequences of one step over all ranks."""
        return self.micro_batch * self.accumulate * self.ranks

    @property
    def bucket_mib(self) -> float:
        """Return the one bucket size for targets that have no list: the cap of all buckets but the first."""
        return self.caps_mib[-1] if self.caps_mib else TORCH_DEFAULT_CAP_MIB

    @property
    def bucket_elements(self) -> int:
        """Return `bucket_mib` in elements of float32 gradients."""
        return int(self.bucket_mib * MIB / GRADIENT_BYTES)

    def head(self) -> list[str]:
        """Return lines for the top of the text: where the values come from and how sure they are."""
        return head_of(self.tuned)

    def bucket_notes(self) -> list[str]:
        """Return what a target with one bucket size loses or must know."""
        if not self.caps_mib:
            return [
                f"torch's default buckets ({TORCH_DEFAULT_CAP_MIB:g} MiB) were kept by measurement; this target's own default "
                "differs, so the size is written out"
            ]
        if len(self.caps_mib) > 1:
            return [
                f"the caps {list(self.caps_mib)} MiB become one, {self.bucket_mib:g} MiB: this target has no list of caps"
            ]
        return []

    def compute_notes(self, *, expresses_recompute: bool) -> list[str]:
        """Return the choices about how a step is computed that a target does not express."""
        notes = [
            f"the model itself is not exported: {self.tuned.trainer} is this project's trainer"
        ]
        if self.loss_chunk:
            notes.append(
                f"compute.loss_chunk={self.loss_chunk} is not expressed: a loss in chunks is the model's own code here"
            )
        notes.append(
            f"compute.experts={self.experts} is not expressed: how experts are computed is the model's own code here"
        )
        if self.recompute != "none" and not expresses_recompute:
            notes.append(
                f"compute.recompute={self.recompute} is not expressed: checkpoint the blocks in code"
            )
        return notes


def settings_of(tuned: TunedConfig) -> Settings:
    """Return the settings of a tuned config; `PlanError` names what it lacks."""
    try:
        c: Any = tuned.config
        caps = c["ddp"]["bucket_cap_mb"]
        return Settings(
            tuned=tuned,
            ranks=c["launch"]["ranks"] or tuned.ranks or 1,
            threads=c["launch"]["threads"],
            micro_batch=c["data"]["micro_batch"],
            accumulate=c["data"]["accumulate"],
            seq_len=c["data"]["seq_len"],
            steps=c["steps"],
            seed=c["seed"],
            is_bf16=c["precision"] == "bfloat16",
            recompute=c["compute"]["recompute"],
            loss_chunk=c["compute"]["loss_chunk"],
            experts=c["compute"]["experts"],
            caps_mib=()
            if caps == FRAMEWORK_DEFAULT
            else tuple(caps)
            if isinstance(caps, Sequence)
            else (float(caps),),
            lr=c["optimizer"]["lr"],
            betas=(c["optimizer"]["beta1"], c["optimizer"]["beta2"]),
            weight_decay=c["optimizer"]["weight_decay"],
            warmup_steps=c["optimizer"]["warmup_steps"],
            clip=c["optimizer"]["clip"],
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


def comments(lines: Sequence[str], mark: str = "#") -> str:
    """Return lines as comments."""
    return "".join(f"{mark} {line}\n" for line in lines)


def toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return tables of plain values as TOML."""
    blocks = []
    for name, table in tables.items():
        blocks.append(
            f"[{name}]\n"
            + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        )
    return "\n".join(blocks)
