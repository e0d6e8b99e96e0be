"""Repeats a job from a store: each measurement returns the stored record, in the same order."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mi300bench.measurement.measure import Measured
from mi300bench.measurement.settings import Settings
from mi300bench.runner.session import Tally
from mi300bench.schema.plan import Plan
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.schema.trainer import TrainerSpec
from mi300bench.strategies.mesh.compile_step import BYTES_OF, CompiledStep

Step = tuple[CompiledStep, Measurement]


def replayed(records: Sequence[Measurement]) -> Callable[[Plan, Settings], Measured]:
    """Return a replacement of `measure` that returns the stored records, the oldest first."""
    left: dict[tuple[str, int], list[Measurement]] = {}
    for record in records:
        left.setdefault((record.point, record.pass_index), []).append(record)

    def measure(plan: Plan, settings: Settings) -> Measured:
        del settings
        kept, tally = [], Tally()
        for number in range(plan.passes):
            for point in plan.points:
                rows = left.get((point.key, number), [])
                if not rows:
                    tally.left_out += 1
                    continue
                kept.append(rows.pop(0))
                tally.ok += kept[-1].outcome is Outcome.OK
        return Measured(run="replay", path=records_path(), records=tuple(kept), tally=tally)

    return measure


def records_path() -> Any:
    """Return where the stored runs are."""
    from pathlib import Path

    return Path(__file__).parent / "store"


def recompiled(
    records: Sequence[Measurement],
) -> tuple[
    Callable[[TrainerSpec, Sequence[Any]], Iterator[CompiledStep]],
    Callable[[TrainerSpec, Sequence[CompiledStep], Settings], list[Step]],
]:
    """Return replacements of `compile_all` and `keep` that return the stored compiled steps."""

    def stored(spec: TrainerSpec, config: Any) -> Measurement:
        mesh = str(spec.settings(config, 1).mesh)
        wanted = {key: spec.value_of(config, key) for key in spec.planned_keys} | {"mesh": mesh}
        return next(
            record
            for record in records
            if record.probe == f"{spec.name}.plan" and wanted.items() <= record.params.items()
        )

    def compile_all(spec: TrainerSpec, configs: Sequence[Any]) -> Iterator[CompiledStep]:
        for config in configs:
            settings, record = spec.settings(config, 1), stored(spec, config)
            assert settings.mesh is not None
            yield CompiledStep(
                config=config,
                mesh=settings.mesh,
                batch=settings.batch,
                precision=settings.precision,
                figures={name: float(record.series[name][0]) for name in BYTES_OF},
            )

    def keep(spec: TrainerSpec, steps: Sequence[CompiledStep], settings: Settings) -> list[Step]:
        del settings
        return [(step, stored(spec, step.config)) for step in steps]

    return compile_all, keep
