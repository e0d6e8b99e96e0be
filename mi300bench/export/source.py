"""What exporters share: the tuned config with its settings in typed groups, and the text with its notes.

Nothing is dropped in silence: what a target cannot express is a note, which stands in the text where its format has
comments, and goes to the person in any case.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mi300bench.schema.config import TunedConfig
from mi300bench.schema.run_settings import Buckets, Ranks, Recompute, RunSettings
from mi300bench.units import MIB

# torch's default of DistributedDataParallel's bucket_cap_mb, in MiB, and what a float32 gradient takes.
TORCH_DEFAULT_CAP_MIB, GRADIENT_BYTES = 25.0, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A target's text, and what a person must know about it."""

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSource:
    """A tuned config with its settings. Buckets are MiB of float32 gradients; no caps is torch's own default.

    A target names the groups of `run` that it needs (`mi300bench.export.targets`), so those are there.
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
        """Return the one bucket size for targets that have no list: the cap of all buckets but the first."""
        caps = self.buckets.caps_mib
        return caps[-1] if caps else TORCH_DEFAULT_CAP_MIB

    @property
    def bucket_elements(self) -> int:
        """Return `bucket_mib` in elements of float32 gradients."""
        return int(self.bucket_mib * MIB / GRADIENT_BYTES)

    def head(self) -> list[str]:
        """Return lines for the top of a text: where the values come from and how sure they are."""
        tuned = self.tuned
        first = f"mi300bench: {tuned.trainer} on {tuned.node} ({tuned.device}), {tuned.origin} data"
        if tuned.confirmed is None:
            return [first, "not confirmed by fresh runs: mi300bench autotune does that"]
        confirmed = tuned.confirmed
        ratio = confirmed.ratio
        return [
            first,
            f"confirmed: {confirmed.candidate} against the default: {confirmed.verdict}, "
            f"{ratio.mid:.3f} of its step ({ratio.low:.3f} to {ratio.high:.3f}) "
            f"on {confirmed.runs} fresh runs each",
        ]

    def bucket_notes(self) -> list[str]:
        """Return what a target with one bucket size loses or must know."""
        caps = self.buckets.caps_mib
        if not caps:
            return [
                f"torch's default buckets ({TORCH_DEFAULT_CAP_MIB:g} MiB) were kept by measurement; "
                "this target's own default differs, so the size is written out"
            ]
        if len(caps) > 1:
            return [
                f"the caps {list(caps)} MiB become one, {self.bucket_mib:g} MiB: "
                "this target has no list of caps"
            ]
        return []

    def model_notes(self, *, expresses_recompute: bool = False) -> list[str]:
        """Return the choices about how a step is computed that a target does not express."""
        notes = [
            f"the model itself is not exported: {self.tuned.trainer} is this project's trainer",
            *(f"{each.key}={each.value} is not expressed: {each.why}" for each in self.run.model_settings),
        ]
        if self.run.recompute is not Recompute.NOTHING and not expresses_recompute:
            notes.append(
                f"recomputing {self.run.recompute} is not expressed: checkpoint them in code"
            )
        return notes


def comments(lines: Sequence[str], mark: str = "#") -> str:
    """Return lines as comments."""
    return "".join(f"{mark} {line}\n" for line in lines)
