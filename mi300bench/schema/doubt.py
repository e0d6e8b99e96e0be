"""Doubts: why not to trust a number. A doubt and its sentence are stored with the record.

A doubtful record is kept. A report made a year later shows the same sentence, with its figures and
the next step.
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
    """A doubt of a kind that this version does not know; its sentence is kept."""

    kind: ClassVar[str] = "other"
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSettled(Doubt):
    """Sampling reached its time limit before the interval was small enough."""

    kind: ClassVar[str] = "not-settled"
    reached: float
    wanted: float
    samples: int

    def __str__(self) -> str:
        return (
            f"the time limit was reached after {self.samples} samples; the median is known "
            f"within {self.reached:.1%}, and the target was {self.wanted:.1%}. "
            "Try: a larger --budget, or a quieter machine."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FewPasses(Doubt):
    """The point was measured in too few fresh processes to estimate their variance."""

    kind: ClassVar[str] = "few-passes"
    passes: int

    def __str__(self) -> str:
        return (
            f"measured in {self.passes} fresh process(es), which is too few: the interval does not "
            "include the variation between processes. Try: --passes 3, or a larger --budget."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FootprintInCache(Doubt):
    """The point should measure memory, but its footprint is under twice the last-level cache."""

    kind: ClassVar[str] = "footprint-in-cache"
    footprint_bytes: int
    cache_bytes: int

    def __str__(self) -> str:
        return (
            f"the footprint of {format_bytes(self.footprint_bytes)} is less than twice the "
            f"last-level cache of {format_bytes(self.cache_bytes)}, so this is partly or wholly "
            f"cache speed. Try: arrays of at least {format_bytes(2 * self.cache_bytes)} together."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUnknown(Doubt):
    """The size of the last-level cache is unknown, so a cold point may still hit the cache."""

    kind: ClassVar[str] = "cache-unknown"
    assumed_bytes: int

    def __str__(self) -> str:
        return (
            f"the size of the last-level cache is unknown; we assumed "
            f"{format_bytes(self.assumed_bytes)} and wrote twice as much to flush it."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AbovePeak(Doubt):
    """The rate is above the published peak, so it counts as an error until it is explained."""

    kind: ClassVar[str] = "above-peak"
    seen: float
    peak: float
    unit: str
    peak_source: str

    def __str__(self) -> str:
        seen, peak = (format_quantity(v, Unit(self.unit)) for v in (self.seen, self.peak))
        return (
            f"{seen} is above the published peak of {peak} ({self.peak_source}): a cache effect, a "
            "wrong specification or a measurement error. Do not use it until the cause is known."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignLoad(Doubt):
    """Other processes used the CPU before the measurement began."""

    kind: ClassVar[str] = "foreign-load"
    busy_cores: float
    cores: int

    def __str__(self) -> str:
        return (
            f"other processes used {self.busy_cores:.1f} of {self.cores} cores before the "
            "measurement. Try: stop them, or measure again when the machine is idle."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaBalancing(Doubt):
    """The kernel may move pages between NUMA nodes during a measurement."""

    kind: ClassVar[str] = "numa-balancing"

    def __str__(self) -> str:
        return (
            "automatic NUMA balancing is on, so the kernel may move pages during a measurement. "
            "Try: sysctl kernel.numa_balancing=0"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Governor(Doubt):
    """The CPU governor is not `performance`, so the clock may change with the load."""

    kind: ClassVar[str] = "governor"
    governor: str

    def __str__(self) -> str:
        return (
            f"the CPU governor is {self.governor!r}, so the clock may change with the load. "
            "Try: cpupower frequency-set -g performance"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMode(Doubt):
    """The GPU is partitioned, so published figures of the whole chip do not apply."""

    kind: ClassVar[str] = "partition-mode"
    compute: str
    memory: str

    def __str__(self) -> str:
        return (
            f"the GPU is partitioned as {self.compute}/{self.memory}, not SPX/NPS1, so published "
            "figures of the whole chip do not apply. Try: amd-smi set --compute-partition SPX"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LittleMemory(Doubt):
    """Less memory is free than a run of the small presets is likely to need."""

    kind: ClassVar[str] = "little-memory"
    free_bytes: int
    wanted_bytes: int

    def __str__(self) -> str:
        return (
            f"only {format_bytes(self.free_bytes)} of memory is free; "
            f"{format_bytes(self.wanted_bytes)} is recommended. "
            "Try: end other processes, or choose a smaller preset."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockDropped(Doubt):
    """The engine clock fell during sampling."""

    kind: ClassVar[str] = "clock-dropped"
    seen_hz: float
    promised_hz: float

    def __str__(self) -> str:
        return (
            f"the engine clock fell to {self.seen_hz / 1e6:.0f} MHz, "
            f"{self.seen_hz / self.promised_hz:.0%} of the published "
            f"{self.promised_hz / 1e6:.0f} MHz. "
            "Try: let the GPU cool down before the run, or raise the power cap."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantsDisagree(Doubt):
    """Two kernels of one pattern differ by more than a tenth: the slower is not memory-bound."""

    kind: ClassVar[str] = "variants-disagree"
    faster: str
    slower: str
    ratio: float

    def __str__(self) -> str:
        return (
            f"{self.slower} reaches {1 / self.ratio:.0%} of the bandwidth of {self.faster}, so the "
            f"kernel is its limit, not the memory. Use the figure of {self.faster}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverRun(Doubt):
    """We have not run this code on such a device yet."""

    kind: ClassVar[str] = "never-run"
    device: str

    def __str__(self) -> str:
        return (
            f"we have not run this code on {self.device} yet; the method was tested on CPUs. "
            "Try: pytest tests/device, and compare one figure with a tool that you trust."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Modelled(Doubt):
    """The figure was not measured: it is computed from published figures."""

    kind: ClassVar[str] = "modelled"
    source: str

    def __str__(self) -> str:
        return (
            f"computed from published figures ({self.source}), not measured. "
            "Try: mi300bench autotune on the node itself."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfRange(Doubt):
    """A fitted curve was used outside its measured range."""

    kind: ClassVar[str] = "out-of-range"
    what: str
    asked: float
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"{self.what} at {self.asked:g} is outside the measured range of {self.low:g} to "
            f"{self.high:g}, so the value is extrapolated. Try: measure that size."
        )


KINDS: dict[str, type[Doubt]] = {kind.kind: kind for kind in Doubt.__subclasses__()}
