"""What tuning returns: the config and what led to it. Writes the config to a file."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tomli_w

from mi300bench.errors import NodeError
from mi300bench.fit.step import StepModel
from mi300bench.schema import config as tuned_config
from mi300bench.schema.candidate import Knob
from mi300bench.schema.config import TunedConfig
from mi300bench.schema.record import Measurement
from mi300bench.tuning.decide import Decision
from mi300bench.tuning.search import Arm, Ranked


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The config, and what led to it, for the report.

    step_model  of the default's step, where ranks exchange gradients in buckets
    failures    reasons of points that gave no result
    """

    config: TunedConfig
    knobs: Sequence[Knob]
    ranked: Sequence[Ranked]
    arms: Sequence[Arm] = ()
    decision: Decision | None = None
    records: tuple[Measurement, ...] = field(default=())
    step_model: StepModel | None = None
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def write(config: TunedConfig, path: Path) -> None:
    """Write the tuned config; on failure no partial file takes its place."""
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(tomli_w.dumps(tuned_config.to_document(config)))
        partial.rename(path)
    except OSError as cause:
        raise NodeError(
            f"{path} cannot be written: {cause.strerror}", hint="give a --out that can be written"
        ) from cause
