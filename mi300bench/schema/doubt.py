"""Why not to trust a number: small types whose text travels with the record.

Nothing is dropped for being doubtful. A report made a year later shows the same sentence, with the
figures behind it and what to do next.
"""

from dataclasses import dataclass
from typing import ClassVar

from mi300bench.units import Unit, format_bytes, format_quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Base of all doubts. `kind` names the type in a stored record."""

    kind: ClassVar[str] = "doubt"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherDoubt(Doubt):
    """A doubt of a kind that this version does not know; its text is kept."""

    kind: ClassVar[str] = "other"
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSettled(Doubt):
    """Sampling stopped at its time limit, before the interval was small enough."""

    kind: ClassVar[str] = "not-settled"
    reached: float
    wanted: float
    samples: int

    def __str__(self) -> str:
        return (
            f"after {self.samples} samples the median is known to {self.reached:.1%}, not to {self.wanted:.1%}; "
            "time was up. Try: a larger --budget, or a quieter machine."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FewPasses(Doubt):
    """The point was measured in too few fresh processes to know the variance between them."""

    kind: ClassVar[str] = "few-passes"
    passes: int

    def __str__(self) -> str:
        return (
            f"measured in {self.passes} fresh process(es); what differs from process to process is not in the "
            "interval. Try: --passes 3, or a larger --budget."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FootprintInCache(Doubt):
    """The point asks for memory, but what it touches fits twice into the last-level cache."""

    kind: ClassVar[str] = "footprint-in-cache"
    footprint_bytes: int
    cache_bytes: int

    def __str__(self) -> str:
        return (
            f"the footprint of {format_bytes(self.footprint_bytes)} is under twice the last-level cache of "
            f"{format_bytes(self.cache_bytes)}; this is cache speed, in part or whole. Try: --sizes of at least "
            f"{format_bytes(2 * self.cache_bytes)}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUnknown(Doubt):
    """The size of the last-level cache is not known, so cold and hot cannot be told apart for sure."""

    kind: ClassVar[str] = "cache-unknown"
    assumed_bytes: int

    def __str__(self) -> str:
        return f"the last-level cache is unknown; {format_bytes(self.assumed_bytes)} were assumed and flushed twice over."


@dataclass(frozen=True, slots=True, kw_only=True)
class AbovePeak(Doubt):
    """A rate above what the maker publishes as the limit: our error until it is explained."""

    kind: ClassVar[str] = "above-peak"
    seen: float
    peak: float
    unit: str
    peak_source: str

    def __str__(self) -> str:
        seen, peak = (format_quantity(v, Unit(self.unit)) for v in (self.seen, self.peak))
        return (
            f"{seen} is above the published peak of {peak} ({self.peak_source}): a cache, a wrong specification or "
            "an error of measurement. Do not use it before it is explained."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignLoad(Doubt):
    """Other processes kept the processor busy while nothing of ours ran."""

    kind: ClassVar[str] = "foreign-load"
    busy_cores: float
    cores: int

    def __str__(self) -> str:
        return (
            f"other processes used {self.busy_cores:.1f} of {self.cores} cores before the measurement. "
            "Try: stop them, or measure again at a quiet hour."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaBalancing(Doubt):
    """The kernel moves pages while they are measured."""

    kind: ClassVar[str] = "numa-balancing"

    def __str__(self) -> str:
        return "automatic NUMA balancing is on and can move pages mid-run. Try: sysctl kernel.numa_balancing=0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Governor(Doubt):
    """The processor's clock follows the load."""

    kind: ClassVar[str] = "governor"
    governor: str

    def __str__(self) -> str:
        return f"the CPU governor is {self.governor!r}. Try: cpupower frequency-set -g performance"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMode(Doubt):
    """The GPU is split, so published figures of the whole chip do not apply."""

    kind: ClassVar[str] = "partition-mode"
    compute: str
    memory: str

    def __str__(self) -> str:
        return (
            f"the GPU runs as {self.compute}/{self.memory}, not SPX/NPS1; figures of the whole chip do not apply. "
            "Try: amd-smi set --compute-partition SPX"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LittleMemory(Doubt):
    """Less memory is free than the run is likely to need."""

    kind: ClassVar[str] = "little-memory"
    free_bytes: int
    wanted_bytes: int

    def __str__(self) -> str:
        return (
            f"{format_bytes(self.free_bytes)} of memory are free, {format_bytes(self.wanted_bytes)} are advisable. "
            "Try: end other processes, or a smaller preset."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockDropped(Doubt):
    """The engine clock fell while the samples were taken."""

    kind: ClassVar[str] = "clock-dropped"
    seen_hz: float
    promised_hz: float

    def __str__(self) -> str:
        return (
            f"the engine clock fell to {self.seen_hz / 1e6:.0f} MHz, {self.seen_hz / self.promised_hz:.0%} of "
            f"{self.promised_hz / 1e6:.0f} MHz. Try: a cool-down before the run, or a higher power cap."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantsDisagree(Doubt):
    """Two kernels for the same pattern differ by more than a tenth: the slower one is not the machine's limit."""

    kind: ClassVar[str] = "variants-disagree"
    faster: str
    slower: str
    ratio: float

    def __str__(self) -> str:
        return (
            f"{self.slower} reaches {1 / self.ratio:.0%} of {self.faster}; the slower kernel is limited by itself, "
            "not by the memory. Read the faster one."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverRun(Doubt):
    """This code path has not been run on such a device by its authors."""

    kind: ClassVar[str] = "never-run"
    device: str

    def __str__(self) -> str:
        return (
            f"the authors have never run this on {self.device}; the method was proven on CPUs. "
            "Try: pytest tests/device, and compare one figure with a tool you trust."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Modelled(Doubt):
    """Nothing was measured: the figure is computed from what others published."""

    kind: ClassVar[str] = "modelled"
    source: str

    def __str__(self) -> str:
        return f"computed from published figures, not measured ({self.source}). Try: mi300bench autotune on the node itself."


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfRange(Doubt):
    """A fitted curve was used outside the range it was measured on."""

    kind: ClassVar[str] = "out-of-range"
    what: str
    asked: float
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"{self.what} at {self.asked:g} is outside the measured {self.low:g} to {self.high:g}; the value is "
            "extrapolated. Try: measure that size."
        )


KINDS: dict[str, type[Doubt]] = {kind.kind: kind for kind in Doubt.__subclasses__()}
