"""Whether a candidate fits into memory: the trainer's model of it, corrected by what a process was seen to hold.

The model counts tensors. A process holds more: what its allocator keeps, what libraries need. The memory record has both for
the default config, and their ratio is taken for all candidates; without a record the model's bytes stand alone, and that is
a doubt. Near the limit a process of the candidate is run, and what it holds decides.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mi300bench.errors import PlanError
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.model import MemoryNeed
from mi300bench.schema.record import Measurement
from mi300bench.strategies.base import MemoryCheck
from mi300bench.strategies.job import Job
from mi300bench.units import format_bytes

# What a process holds over its tensors differs between configs by some per cent (1.48 to 1.61 times were seen), so that much of a
# limit stays free.
MARGIN = 1.15
# From this share of the limit on a pick is measured before it is proposed.
NEAR = 0.6
# Beyond this relative difference of model and instrument the model is not to be trusted, and that is a doubt.
MODEL_ERROR = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """Bytes of a rank: `base` before the model is built, `overhead` of the process over its tensors, from `evidence`.

    error    of the trainer's model for the default config, relative; None where it was not measured
    proven   labels of candidates that were measured to fit
    refused  bytes of tensors from which on a candidate was measured not to fit
    """

    base: float = 0.0
    overhead: float = 1.0
    error: float | None = None
    evidence: tuple[str, ...] = ()
    proven: tuple[str, ...] = ()
    refused: float = float("inf")


class RankMemory(MemoryCheck):
    """Whether a rank of a candidate fits. `measure_one` runs a process of a candidate and returns its records."""

    def __init__(
        self,
        job: Job,
        readings: Mapping[str, float],
        known: ProcessMemory,
        measure_one: Callable[[Candidate], Sequence[Measurement]],
    ) -> None:
        self.job, self.readings, self.known, self.measure_one = job, readings, known, measure_one
        self._taken: list[Measurement] = []

    def need(self, candidate: Candidate) -> MemoryNeed:
        """Return the tensors' peak of a candidate."""
        world = candidate.world or self.job.world
        return tensors_of(self.job, candidate, world.ranks, self.readings)

    def held(self, candidate: Candidate) -> float:
        """Return what a process of the candidate is predicted to hold at most, in bytes."""
        margin = MARGIN if self.known.evidence else 1.0
        return self.known.base + margin * self.known.overhead * self.need(candidate).peak_bytes

    def limit(self, candidate: Candidate) -> float | None:
        """Return the bytes that a process of the candidate may hold: fewer ranks share the same machine."""
        limit = self.job.memory_limit
        if limit is None:
            return None
        world = candidate.world or self.job.world
        return limit * self.job.world.ranks / world.ranks if world.device == "cpu" else limit

    def fits(self, candidate: Candidate) -> bool:
        """Return whether the candidate stays under the limit."""
        limit = self.limit(candidate)
        if limit is None or candidate.label in self.known.proven:
            return True
        is_refused = self.need(candidate).peak_bytes >= self.known.refused
        return not is_refused and self.held(candidate) <= limit

    def is_near(self, candidate: Candidate) -> bool:
        """Return whether the candidate comes so near the limit that a process has to be measured."""
        limit = self.limit(candidate)
        return limit is not None and self.held(candidate) > NEAR * limit

    def settle(self, candidate: Candidate, *, may_run: bool) -> bool:
        """Measure what the candidate holds where the limit is near; return whether it fits.

        Without a good record (the process was killed, or memory ran out) it does not.
        """
        if may_run and self.is_near(candidate) and candidate.label not in self.known.proven:
            records = self.measure_one(candidate)
            self._taken += records
            good = [record for record in records if record.outcome == "ok"]
            self._learn(candidate, good[0] if good else None)
        return self.fits(candidate)

    def _learn(self, candidate: Candidate, record: Measurement | None) -> None:
        limit, known = self.limit(candidate), self.known
        ids = () if record is None else (record.id,)
        evidence = (*known.evidence, *ids)
        if record is None or limit is None or float(record.series["held_bytes"][0]) > limit:
            least = min(known.refused, self.need(candidate).peak_bytes)
            self.known = replace(known, refused=least, evidence=evidence)
        else:
            proven = (*known.proven, candidate.label)
            self.known = replace(known, proven=proven, evidence=evidence)

    def evidence(self) -> tuple[str, ...]:
        """Return the ids of the memory records."""
        return self.known.evidence

    def records(self) -> tuple[Measurement, ...]:
        """Return the records of the candidates that were measured near the limit."""
        return tuple(self._taken)

    def doubts(self) -> tuple[str, ...]:
        """Return why the bytes may be wrong."""
        if not self.known.evidence:
            return (
                "no memory was measured: what a process holds beyond its tensors is not counted. "
                "Try: mi300bench autotune",
            )
        if self.known.error is not None and abs(self.known.error) > MODEL_ERROR:
            return (
                f"the memory model is off by {self.known.error:+.0%} for the default config; "
                "limits may not hold",
            )
        return ()

    def sentence(self, candidate: Candidate) -> str:
        """Return what the candidate holds and may hold, for a person."""
        limit = self.limit(candidate)
        held = f"a rank is predicted to hold {format_bytes(self.held(candidate))}"
        return held + (
            f" of {format_bytes(limit)}" if limit is not None else "; no limit is known"
        )

    def refusal(self, candidates: Sequence[Candidate]) -> PlanError:
        """Return the error that names the limit, the nearest candidate, and what it consists of."""
        nearest = min(candidates, key=self.held)
        need, held = self.need(nearest), format_bytes(self.held(nearest))
        rows = sorted(need.parts.items(), key=lambda row: -row[1])
        parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in rows if size)
        return PlanError(
            f"no candidate fits into {format_bytes(self.limit(nearest) or 0.0)} a rank: the nearest, "
            f"{nearest.label}, holds {held} (at its peak, {need.moment}: {parts})",
            hint=f"--memory-limit of at least {held}, a smaller --preset, or a shorter --seq-len",
        )


def tensors_of(
    job: Job, candidate: Candidate, ranks: int, readings: Mapping[str, float]
) -> MemoryNeed:
    """Return the peak of the tensors of a candidate on one of `ranks`, as the trainer models it."""
    model = job.spec.data_parallel
    assert model is not None
    return model.memory(job.with_keys(candidate.keys), ranks=ranks, readings=readings)


def process_memory(
    job: Job, record: Measurement | None, default: Candidate, readings: Mapping[str, float]
) -> ProcessMemory:
    """Return what a process of the default was seen to hold over its tensors; nothing without a record."""
    if record is None:
        return ProcessMemory()
    tensors = float(record.series["peak_bytes"][0])
    before, held = (float(record.series[name][0]) for name in ("held_before_bytes", "held_bytes"))
    need = tensors_of(job, default, job.world.ranks, readings).peak_bytes
    is_proven = job.memory_limit is None or held <= job.memory_limit
    return ProcessMemory(
        base=before,
        overhead=max(1.0, (held - before) / tensors),
        error=need / tensors - 1,
        evidence=(record.id,),
        proven=(default.label,) if is_proven else (),
    )
