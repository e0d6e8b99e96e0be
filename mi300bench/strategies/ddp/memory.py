"""Whether a candidate fits into memory: the trainer's model of it, corrected by what a process was seen to hold.

The model counts tensors. A process holds more: what its allocator keeps, what libraries need. The memory record has both for
the default config, and their ratio is taken for all candidates; without a record the model's bytes stand alone, and that is
said.
"""

from dataclasses import dataclass, replace

from mi300bench.errors import PlanError
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.model import MemoryNeed
from mi300bench.schema.record import Measurement
from mi300bench.strategies.job import Job
from mi300bench.trainers import registry
from mi300bench.units import format_bytes

# What a process holds over its tensors differs between configs by some per cent (1.48 to 1.61 times were seen), so that much of a
# limit stays free.
MARGIN = 1.15
# From this share of the limit on a pick is measured before it is proposed.
NEAR = 0.6
# Beyond this relative difference of model and instrument the model is not to be trusted, and that is a doubt.
MODEL_ERROR = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes a rank: `base` before the model is built, `overhead` of the process over its tensors, from `evidence`."""

    job: Job
    load: float
    base: float = 0.0
    overhead: float = 1.0
    error: float | None = None  # the model's, for the default config
    evidence: tuple[str, ...] = ()
    proven: tuple[str, ...] = ()  # candidates that were measured to fit
    refused: float = float(
        "inf"
    )  # bytes of tensors from which on a candidate was measured not to fit

    def need(self, candidate: Candidate) -> MemoryNeed:
        """Return the tensors' peak of a candidate."""
        world = candidate.world or self.job.world
        module = registry.module(self.job.trainer, "memory")
        found: MemoryNeed = module.need(
            self.job.with_keys(candidate.keys), ranks=world.ranks, load=self.load
        )
        return found

    def held(self, candidate: Candidate) -> float:
        """Return what a process of the candidate is predicted to hold at most, in bytes."""
        margin = MARGIN if self.evidence else 1.0
        return self.base + margin * self.overhead * self.need(candidate).peak_bytes

    def limit(self, candidate: Candidate) -> float | None:
        """Return the bytes a process of the candidate may hold: fewer ranks share the same machine."""
        if self.job.memory_limit is None:
            return None
        world = candidate.world or self.job.world
        return (
            self.job.memory_limit * self.job.world.ranks / world.ranks
            if world.device == "cpu"
            else self.job.memory_limit
        )

    def fits(self, candidate: Candidate) -> bool:
        """Return whether the candidate stays under the limit."""
        limit = self.limit(candidate)
        if limit is None or candidate.label in self.proven:
            return True
        return self.need(candidate).peak_bytes < self.refused and self.held(candidate) <= limit

    def is_near(self, candidate: Candidate) -> bool:
        """Return whether the candidate comes so near the limit that it is to be measured and not believed."""
        limit = self.limit(candidate)
        return limit is not None and self.held(candidate) > NEAR * limit

    def corrected(self, candidate: Candidate, record: Measurement | None) -> "Memory":
        """Return the memory after a candidate was measured: proven to fit, or refused with all whose tensors need as much.

        Without a record (the process was killed, or memory ran out) it does not fit.
        """
        limit = self.limit(candidate)
        if record is None or limit is None or float(record.series["held_bytes"][0]) > limit:
            ids = () if record is None else (record.id,)
            return replace(
                self,
                refused=min(self.refused, self.need(candidate).peak_bytes),
                evidence=(*self.evidence, *ids),
            )
        return replace(
            self, proven=(*self.proven, candidate.label), evidence=(*self.evidence, record.id)
        )

    def doubts(self) -> tuple[str, ...]:
        """Return why the memory figures may not be trusted."""
        found = []
        if not self.evidence:
            found.append(
                "no memory was measured: what a process holds beyond its tensors is not counted. Try: mi300bench autotune"
            )
        elif self.error is not None and abs(self.error) > MODEL_ERROR:
            found.append(
                f"the memory model is off by {self.error:+.0%} for the default config; limits may not hold"
            )
        return tuple(found)


def memory_of(job: Job, record: Measurement | None, default: Candidate, load: float) -> Memory:
    """Return the memory of a job's candidates, corrected by the record of the default config where there is one."""
    plain = Memory(job=job, load=load)
    if record is None:
        return plain
    tensors = float(record.series["peak_bytes"][0])
    before, held = (float(record.series[name][0]) for name in ("held_before_bytes", "held_bytes"))
    need = plain.need(default).peak_bytes
    return Memory(
        job=job,
        load=load,
        base=before,
        overhead=max(1.0, (held - before) / tensors),
        error=need / tensors - 1,
        evidence=(record.id,),
        proven=(default.label,) if job.memory_limit is None or held <= job.memory_limit else (),
    )


def require_some(candidates: list[Candidate], memory: Memory) -> list[Candidate]:
    """Return the candidates that fit; `PlanError` names the limit and the nearest miss where none does."""
    fitting = [candidate for candidate in candidates if memory.fits(candidate)]
    if fitting or not candidates:
        return fitting
    nearest = min(candidates, key=memory.held)
    need = memory.need(nearest)
    parts = ", ".join(
        f"{name} {format_bytes(size)}"
        for name, size in sorted(need.parts.items(), key=lambda row: -row[1])
        if size
    )
    limit = memory.limit(nearest) or 0.0
    raise PlanError(
        f"no candidate fits into {format_bytes(limit)} a rank: the nearest, {nearest.label}, holds "
        f"{format_bytes(memory.held(nearest))} ({need.moment}: {parts})",
        hint=f"--memory-limit of at least {format_bytes(memory.held(nearest))}, a smaller --preset, or a shorter --seq-len",
    )


def memory_sentence(memory: Memory, candidate: Candidate) -> str:
    """Return what the candidate holds and may hold, for a person."""
    limit = memory.limit(candidate)
    said = f"a rank is predicted to hold {format_bytes(memory.held(candidate))}"
    return said + (f" of {format_bytes(limit)}" if limit is not None else "; no limit is known")
