"""Whether a candidate fits into memory: the trainer's memory model, corrected by a measurement.

The model counts tensors. A process needs more, for its allocator and for libraries. The memory
record of the default config has both figures, and their ratio is used for all candidates. Without a
record only tensors count, and that is a doubt. Near the limit a process of the candidate is run,
and its measured memory decides.
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

# The ratio of process to tensors differs between configs (1.48 to 1.61 were measured), so the
# predicted bytes get this margin.
MARGIN = 1.15
# A pick that needs more than this share of the limit is measured before it is proposed.
NEAR = 0.6
# A larger relative difference between memory model and measurement is a doubt.
MODEL_ERROR = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """What was measured of a rank's process.

    base      bytes before the model is built
    overhead  bytes of the process over those of its tensors
    error     relative error of the trainer's memory model for the default; None if not measured
    evidence  ids of the memory records
    proven    labels of candidates that fit, as measured
    refused   fewest bytes of tensors of a candidate that did not fit, as measured
    """

    base: float = 0.0
    overhead: float = 1.0
    error: float | None = None
    evidence: tuple[str, ...] = ()
    proven: tuple[str, ...] = ()
    refused: float = float("inf")


class RankMemory(MemoryCheck):
    """Whether a rank of a candidate fits into memory.

    `measure_one` runs the ranks of a candidate and returns their memory records.
    """

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
        """Return the peak memory of a candidate's tensors."""
        world = candidate.world or self.job.world
        return tensors_of(self.job, candidate, world.ranks, self.readings)

    def held(self, candidate: Candidate) -> float:
        """Return the bytes that a process of the candidate is predicted to need at most."""
        margin = MARGIN if self.known.evidence else 1.0
        return self.known.base + margin * self.known.overhead * self.need(candidate).peak_bytes

    def limit(self, candidate: Candidate) -> float | None:
        """Return the bytes that a process of the candidate may use; None without a limit.

        On a CPU all ranks share the memory, so fewer ranks may use more each.
        """
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
        """Return whether the candidate is so near the limit that its process has to be measured."""
        limit = self.limit(candidate)
        return limit is not None and self.held(candidate) > NEAR * limit

    def settle(self, candidate: Candidate, *, may_run: bool) -> bool:
        """Measure the candidate's memory if the limit is near; return whether it fits.

        A candidate without a good record does not fit: its process ran out of memory or was killed.
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
                "memory was not measured, so only tensors are counted and a process needs more. "
                "Try: mi300bench autotune",
            )
        if self.known.error is not None and abs(self.known.error) > MODEL_ERROR:
            return (
                f"the memory model differs by {self.known.error:+.0%} from the measurement of the "
                "default config, so a pick may not fit",
            )
        return ()

    def sentence(self, candidate: Candidate) -> str:
        """Return the candidate's need and its limit as a sentence."""
        limit = self.limit(candidate)
        held = f"a rank is predicted to need {format_bytes(self.held(candidate))}"
        return held + (f" of {format_bytes(limit)}" if limit is not None else "; no limit is known")

    def refusal(self, candidates: Sequence[Candidate]) -> PlanError:
        """Return the error that names the limit, the smallest candidate, and its parts."""
        nearest = min(candidates, key=self.held)
        need, held = self.need(nearest), format_bytes(self.held(nearest))
        rows = sorted(need.parts.items(), key=lambda row: -row[1])
        parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in rows if size)
        return PlanError(
            f"no candidate fits into {format_bytes(self.limit(nearest) or 0.0)} for each rank: the "
            f"smallest, {nearest.label}, needs {held} (at its peak, {need.moment}: {parts})",
            hint=f"give --memory-limit {held} or more, a smaller --preset, or a smaller --seq-len",
        )


def tensors_of(
    job: Job, candidate: Candidate, ranks: int, readings: Mapping[str, float]
) -> MemoryNeed:
    """Return the trainer's prediction of the peak memory of a candidate's tensors on a rank."""
    model = job.spec.data_parallel
    assert model is not None
    return model.memory(job.with_keys(candidate.keys), ranks=ranks, readings=readings)


def process_memory(
    job: Job, record: Measurement | None, default: Candidate, readings: Mapping[str, float]
) -> ProcessMemory:
    """Return what the default's memory record shows of a process; no correction without one."""
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
