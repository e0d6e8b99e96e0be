"""Whether a candidate fits on its devices, from a lower bound and from the compiler's upper bound.

Compiling takes seconds for each candidate, so only likely picks are compiled. The bound is from the
CPU compiler: a candidate within it fits; a candidate beyond it might still fit on a GPU.
"""

from collections.abc import Sequence

from mi300bench.errors import NodeError, PlanError, ProbeError
from mi300bench.measurement.settings import Settings
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.record import Measurement
from mi300bench.strategies.base import MemoryCheck
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh import compile_step
from mi300bench.strategies.mesh.compile_step import CompiledStep
from mi300bench.strategies.mesh.placement import model_of
from mi300bench.units import format_bytes


class DeviceMemory(MemoryCheck):
    """Whether a device of a candidate fits into memory."""

    def __init__(self, job: Job, settings: Settings) -> None:
        self.job, self.settings = job, settings
        self._compiled: dict[str, tuple[CompiledStep, Measurement]] = {}
        self._note = ""

    def _key(self, candidate: Candidate) -> str:
        """Return the candidate's options of the knobs that affect memory, as a key."""
        labels = [
            (name, option.label)
            for name, option in candidate.options.items()
            if self.job.affects_memory(name)
        ]
        return repr(labels)

    def held(self, candidate: Candidate) -> float:
        """Return the bytes of a device: the compiler's bound, or the lower bound without one."""
        known = self._compiled.get(self._key(candidate))
        if known is not None:
            return known[0].bound
        return model_of(self.job).held_bytes(self.job.with_keys(candidate.keys))

    def fits(self, candidate: Candidate) -> bool:
        """Return whether the candidate stays under the limit, as far as known."""
        return self.job.memory_limit is None or self.held(candidate) <= self.job.memory_limit

    def settle(self, candidate: Candidate, *, may_run: bool) -> bool:
        """Compile the candidate's step; return whether it fits by the compiler's bound."""
        del may_run  # compiling does not run the step
        self.compiled(candidate)
        return self.fits(candidate)

    def compiled(self, candidate: Candidate) -> Measurement | None:
        """Compile the candidate's step without weights; return its record, None without JAX."""
        key = self._key(candidate)
        if key not in self._compiled and not self._note:
            self._compile(candidate, key)
        return self._compiled[key][1] if key in self._compiled else None

    def _compile(self, candidate: Candidate, key: str) -> None:
        devices = self.job.world.ranks
        self.settings.say(f"compiling {candidate.label} for {devices} device(s) without weights")
        unchecked = "the memory beyond the weights was not checked"
        try:
            steps = compile_step.compile_all(self.job.spec, [self.job.with_keys(candidate.keys)])
            kept = compile_step.keep(self.job.spec, steps, self.settings)
        except (NodeError, ProbeError) as cause:
            self._note = f"{unchecked}: {cause}"
            return
        if kept:
            self._compiled[key] = kept[0]
        else:
            self._note = f"{unchecked}: {candidate.label} does not compile"

    def evidence(self) -> tuple[str, ...]:
        """Return the ids of the compiled steps."""
        return tuple(record.id for record in self.records())

    def records(self) -> tuple[Measurement, ...]:
        """Return the records of all compiled steps."""
        return tuple(record for _, record in self._compiled.values())

    def notes(self) -> tuple[str, ...]:
        """Return why a step was not compiled."""
        return (self._note,) if self._note else ()

    def sentence(self, candidate: Candidate) -> str:
        """Return the candidate's need and its limit as a sentence."""
        limit = self.job.memory_limit
        what = "needs at most" if self._key(candidate) in self._compiled else "needs at least"
        held = f"a device {what} {format_bytes(self.held(candidate))}"
        return held + (f" of {format_bytes(limit)}" if limit is not None else "; no limit is known")

    def refusal(self, candidates: Sequence[Candidate]) -> PlanError:
        """Return the error that names the candidate that needs least."""
        nearest = min(candidates, key=self.held)
        return PlanError(
            f"no candidate fits. Of the smallest, {nearest.label}, {self.sentence(nearest)}",
            hint="use more devices, or a smaller --preset, --batch or --seq-len; "
            "give --memory-limit if a device has more memory",
        )
