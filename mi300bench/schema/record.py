"""The record: one point, measured once, in one pass.

All results are functions of records. A record therefore describes how it was measured, so that a
reader can reject it. All raw samples are kept, in order; statistics are in `mi300bench.stats`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from mi300bench.schema.doubt import Doubt
from mi300bench.units import Unit

SCHEMA: Final = 2

Scalar = str | int | float | bool | None
Series = Mapping[str, tuple[float | int | str, ...]]


class Outcome(StrEnum):
    """How the measurement of a point ended. Only a record with `OK` has a speed."""

    OK = "ok"
    WRONG_ANSWER = "wrong-answer"
    FAILED = "failed"
    SKIPPED = "skipped"


class Origin(StrEnum):
    """Where a number comes from. Reports and configs keep it."""

    MEASURED = "measured"
    IMPORTED = "imported"
    PUBLISHED = "published"
    EMULATED = "emulated"
    MODELLED = "modelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one call does, as the probe declares it: the source of bandwidth and FLOP rate."""

    bytes_read: float = 0.0
    bytes_written: float = 0.0
    flop: float = 0.0
    message_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The device kind, the number of ranks and, on a CPU, the threads of each rank.

    Under torch, a rank is a process. Under JAX, a rank is a device, and one process has them all.
    """

    device: str = "cpu"
    ranks: int = 1
    threads: int = 0
    framework: str = "torch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One point, measured once. `samples` are seconds per call; of several ranks, the slowest.

    `environment` are the variables that the point sets. `variables` are all variables that were set
    during the measurement and that may affect it: see `conditions.ENVIRONMENT_PREFIXES`.
    """

    probe: str
    method: int
    params: Mapping[str, Scalar]
    outcome: Outcome
    id: str = ""
    point: str = ""
    run: str = ""
    reason: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    world: World = field(default_factory=World)
    samples: tuple[float, ...] = ()
    warmup: tuple[float, ...] = ()
    rank_samples: tuple[tuple[float, ...], ...] = ()
    calls_per_sample: int = 1
    pass_index: int = 0
    unit: Unit = Unit.SECOND
    work: Work = field(default_factory=Work)
    series: Series = field(default_factory=dict)
    conditions: Mapping[str, Scalar] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    node: str = ""
    device: str = ""
    started_at: str = ""
    origin: Origin = Origin.MEASURED
    source: str = ""
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if self.outcome is Outcome.OK and not self.samples:
            raise ValueError(f"{self.probe}: outcome {self.outcome} needs samples")
        if self.outcome is not Outcome.OK and not self.reason:
            raise ValueError(f"{self.probe}: outcome {self.outcome} needs a reason")


def short_hash(value: object, length: int = 12) -> str:
    """Return a short, stable hash of a value that JSON can represent."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()[:length]
