"""Whether a candidate fits on its devices: by what it holds at least, and by the compiler's bound where asked for.

Compiling takes seconds a candidate, so only the ones that would be taken are asked for. The bound is the CPU compiler's: what it
lets through fits, what it refuses might have.
"""

from mi300bench.errors import NodeError, ProbeError
from mi300bench.measurement.settings import Settings
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.record import Measurement
from mi300bench.strategies.mesh import compile
from mi300bench.strategies.mesh.compile import Plan
from mi300bench.strategies.mesh.job import MeshJob
from mi300bench.trainers import registry
from mi300bench.units import ELEMENT_BYTES, format_bytes


class MeshMemory:
    """Whether a candidate fits: by what it holds before the step, and by the compiler's bound where that was asked for."""

    def __init__(self, job: MeshJob, settings: Settings) -> None:
        self.job, self.settings = job, settings
        self.plans: dict[str, tuple[Plan, Measurement]] = {}
        self.note = ""

    def _key(self, candidate: Candidate) -> str:
        names = (
            "mesh",
            "remat",
            "loss_chunk",
            "batch",
            "shapes",
            "precision",
            "attention_block",
            "unroll",
        )
        return repr([candidate.options[name].label for name in names if name in candidate.options])

    def held(self, candidate: Candidate) -> float:
        """Return the bytes of a device that are known: the compiler's bound, else what it holds at least."""
        if (key := self._key(candidate)) in self.plans:
            return self.plans[key][0].bound
        config = self.job.with_keys(candidate.keys)
        held: float = registry.module(self.job.trainer, "shapes").held_bytes(
            config, ELEMENT_BYTES[config.precision]
        )
        return held

    def fits(self, candidate: Candidate) -> bool:
        """Return whether the candidate stays under the limit, as far as it is known."""
        return self.job.memory_limit is None or self.held(candidate) <= self.job.memory_limit

    def ask(self, candidate: Candidate) -> Measurement | None:
        """Compile the candidate's step without its weights and keep the plan; None where no compiler is here."""
        key = self._key(candidate)
        if key not in self.plans and not self.note:
            self.settings.say(
                f"compiling {candidate.label} for {self.job.devices} device(s) without its weights"
            )
            try:
                planned = compile.plan_all(self.job.trainer, [self.job.with_keys(candidate.keys)])
                kept = compile.keep(self.job.trainer, planned, self.settings)
            except (NodeError, ProbeError) as cause:
                self.note = f"what a step needs beyond its weights was not checked: {cause}"
                return None
            if not kept:
                self.note = f"what a step needs beyond its weights was not checked: {candidate.label} does not compile"
                return None
            self.plans[key] = kept[0]
        return self.plans[key][1] if key in self.plans else None

    def records(self) -> tuple[Measurement, ...]:
        """Return the records of all plans."""
        return tuple(record for _, record in self.plans.values())

    def sentence(self, candidate: Candidate) -> str:
        """Return what the candidate holds and may hold, for a person."""
        limit = self.job.memory_limit
        what = "needs at most" if self._key(candidate) in self.plans else "holds at least"
        said = f"a device {what} {format_bytes(self.held(candidate))}"
        return said + (f" of {format_bytes(limit)}" if limit is not None else "; no limit is known")
