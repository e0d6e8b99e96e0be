"""What exporters share: the tuned config with its typed settings, and the exported text with notes.

Every setting that a target cannot express becomes a note. The user sees all notes; the text has
them too, if its format has comments.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mi300bench.schema.config import TunedConfig
from mi300bench.schema.run_settings import Buckets, Ranks, Recompute, RunSettings
from mi300bench.units import MIB

# The default bucket_cap_mb of DistributedDataParallel, in MiB, and the bytes of a float32 gradient.
TORCH_DEFAULT_CAP_MIB, GRADIENT_BYTES = 25.0, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The text for a target, and notes on what the user must know about it."""

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSource:
    """A tuned config with its settings.

    Buckets are in MiB of float32 gradients; without caps, torch's default holds. The groups of
    `run` that a target needs (see `mi300bench.export.targets`) are never None here.
    """

    tuned: TunedConfig
    run: RunSettings

    @property
    def ranks(self) -> Ranks:
        """Return the ranks and threads."""
        assert self.run.ranks is not None
        return self.run.ranks

    @property
    def buckets(self) -> Buckets:
        """Return the bucket caps."""
        assert self.run.buckets is not None
        return self.run.buckets

    @property
    def bucket_mib(self) -> float:
        """Return the bucket size for targets that take only one: the last cap of the list."""
        caps = self.buckets.caps_mib
        return caps[-1] if caps else TORCH_DEFAULT_CAP_MIB

    @property
    def bucket_elements(self) -> int:
        """Return `bucket_mib` in elements of float32 gradients."""
        return int(self.bucket_mib * MIB / GRADIENT_BYTES)

    def head(self) -> list[str]:
        """Return the first lines of a text: the origin of the values, and if they are confirmed."""
        tuned = self.tuned
        first = f"mi300bench: {tuned.trainer} on {tuned.node} ({tuned.device}), {tuned.origin} data"
        if tuned.confirmed is None:
            return [first, "not confirmed by fresh runs; to confirm it: mi300bench autotune"]
        confirmed = tuned.confirmed
        ratio = confirmed.ratio
        return [
            first,
            f"fresh runs: {confirmed.candidate} against the default: {confirmed.verdict}, "
            f"{ratio.mid:.3f} of its step ({ratio.low:.3f} to {ratio.high:.3f}) "
            f"on {confirmed.runs} runs each",
        ]

    def bucket_notes(self) -> list[str]:
        """Return the notes of a target that takes only one bucket size."""
        caps = self.buckets.caps_mib
        if not caps:
            return [
                f"torch's default bucket size ({TORCH_DEFAULT_CAP_MIB:g} MiB) was kept; "
                "it is written out, because this target has another default"
            ]
        if len(caps) > 1:
            return [
                f"the caps {list(caps)} MiB become one of {self.bucket_mib:g} MiB, "
                "because this target takes only one size"
            ]
        return []

    def model_notes(self, *, expresses_recompute: bool = False) -> list[str]:
        """Return notes on the settings of the model that a target does not express."""
        notes = [
            f"the model is not exported: {self.tuned.trainer} is a trainer of mi300bench",
            *self.model_setting_notes(),
        ]
        if self.run.recompute is not Recompute.NOTHING and not expresses_recompute:
            notes.append(
                f"recomputation ({self.run.recompute}) is not expressed: "
                "set activation checkpointing in your script"
            )
        return notes

    def model_setting_notes(self) -> list[str]:
        """Return a note for each setting of the trainer that no other framework has."""
        return [
            f"{each.key}={each.value} is not expressed: {each.why}"
            for each in self.run.model_settings
        ]


def comments(lines: Sequence[str], mark: str = "#") -> str:
    """Return lines as comments."""
    return "".join(f"{mark} {line}\n" for line in lines)
