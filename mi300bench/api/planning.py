"""A training step of any size, compiled without its weights: its memory and time on a device."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.measurement.settings import Say, Settings
from mi300bench.published.figures import PublishedDevice, published_device
from mi300bench.schema.model import Interval
from mi300bench.schema.run_settings import Mesh
from mi300bench.schema.trainer import TrainerSpec
from mi300bench.store.reader import read_records
from mi300bench.strategies.mesh.compile_step import (
    CompiledStep,
    compile_all,
    keep,
    require_planner,
)
from mi300bench.strategies.mesh.placement import mesh_keys
from mi300bench.strategies.mesh.planning import (
    largest_that_fits,
    seconds_from_curves,
    seconds_from_figures,
)
from mi300bench.strategies.mesh.traffic import meshes
from mi300bench.trainers.registry import spec_of

SECONDS_PER_HOUR = 3600.0
ALL = "all"
FITS = ("yes", "perhaps", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """A compiled step with its predicted seconds.

    `evidence` are the ids of the records that they come from; it is empty for published figures.
    """

    step: CompiledStep
    seconds: Interval | None = None
    evidence: tuple[str, ...] = ()

    @property
    def tokens_per_second(self) -> tuple[float, float]:
        """Return the lowest and the highest tokens per second."""
        assert self.seconds is not None
        return self.step.tokens / self.seconds.high, self.step.tokens / self.seconds.low

    def prices(self, hourly: float) -> tuple[float, float]:
        """Return the lowest and highest price of a million tokens, from a GPU's `hourly` price."""
        assert self.seconds is not None
        each = hourly * self.step.mesh.devices / SECONDS_PER_HOUR * 1e6 / self.step.tokens
        return each * self.seconds.low, each * self.seconds.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Planned steps on a device: those that fit first, and of these the fastest first."""

    preset: str
    recompute: str
    device: PublishedDevice
    rows: Sequence[PlannedStep]

    @property
    def limit(self) -> float:
        """Return the memory of a device in bytes."""
        return self.device.fact("memory_bytes").value


def parse_mesh(text: str, devices: int) -> list[Mesh]:
    """Return the meshes of a text: one as ``dp,fsdp,mp``, or ``all`` of so many devices."""
    if devices < 1:
        raise PlanError(f"--devices must be at least 1 (got {devices})", hint="--devices 8")
    if text == ALL:
        return meshes(devices)
    if not re.fullmatch(r"\d+,\d+,\d+", text):
        raise PlanError(
            f"cannot read --mesh {text!r} as a mesh",
            hint="give dp,fsdp,mp such as --mesh 1,8,1, or --mesh all",
        )
    dp, fsdp, mp = (int(part) for part in text.split(","))
    mesh = Mesh(dp=dp, fsdp=fsdp, mp=mp)
    if mesh.devices != devices:
        raise PlanError(
            f"--mesh {text} has {mesh.devices} devices, but --devices is {devices}",
            hint=f"give three numbers whose product is {devices}, or --mesh all",
        )
    return [mesh]


def plan(
    trainer: str,
    *,
    preset: str,
    mesh: str,
    devices: int,
    keys: Mapping[str, Any],
    device: str,
    settings: Settings,
    is_fitted: bool = False,
    curves: Path | None = None,
    node: str = "",
) -> Planned:
    """Return the steps on the meshes that `mesh` names, compiled and kept in the store.

    keys       dotted keys of the config to set, other than the mesh
    device     a published device such as ``mi300x``, for its memory and the predicted seconds
    is_fitted  only the first mesh, with the largest batch that fits
    curves     a store with curves of JAX, which then predict the seconds
    node       the node in that store; all if empty
    """
    if is_fitted and "data.batch" in keys:
        raise PlanError(
            "--fit searches the batch, so --batch cannot be set", hint="omit --batch or --fit"
        )
    spec = spec_of(trainer)
    require_planner(spec)
    published = published_device(device)
    chosen = parse_mesh(mesh, devices)
    configs = _configs(spec, preset, keys, chosen, settings.say, is_all=mesh == ALL)
    limit = published.fact("memory_bytes").value
    steps = (
        [_largest(spec, configs[0], limit, settings.say)]
        if is_fitted
        else list(compile_all(spec, configs))
    )
    if all(step.error for step in steps):
        raise PlanError(steps[0].error, hint="list the meshes that are possible: --mesh all")
    keep(spec, steps, settings)
    rows = _with_seconds(spec, steps, published, settings, curves, node)
    rows.sort(key=lambda row: _order(row, limit))
    recompute = str(spec.settings(configs[0], 1).recompute)
    return Planned(preset=preset, recompute=recompute, device=published, rows=rows)


def _largest(spec: TrainerSpec, config: Any, limit: float, say: Say) -> CompiledStep:
    best = largest_that_fits(spec, config, limit, say)
    if best is None:
        raise PlanError(
            f"not even one sequence per group fits into {limit / 1e9:.0f} GB per device",
            hint="plan for more --devices, a shorter --seq, or --remat full",
        )
    return best


def _configs(
    spec: TrainerSpec,
    preset: str,
    keys: Mapping[str, Any],
    chosen: Sequence[Mesh],
    say: Say,
    *,
    is_all: bool,
) -> list[Any]:
    """Return the config of each mesh that can divide the batch.

    A single mesh that cannot is an error; of all meshes, such a one is left out with a message.
    """
    base, configs = spec.preset(preset), []
    for mesh in chosen:
        try:
            configs.append(spec.override(base, {**keys, **mesh_keys(mesh)}))
        except PlanError as cause:
            if not is_all:
                raise
            say(f"{mesh}: {cause}")
    if not configs:
        raise PlanError("no mesh can divide this batch", hint="give a larger --batch")
    return configs


def _with_seconds(
    spec: TrainerSpec,
    steps: Sequence[CompiledStep],
    device: PublishedDevice,
    settings: Settings,
    curves: Path | None,
    node: str,
) -> list[PlannedStep]:
    records = (
        [r for r in read_records(curves, warn=settings.say) if node in ("", r.node)]
        if curves is not None
        else None
    )
    rows = []
    for step in steps:
        if step.error:
            rows.append(PlannedStep(step=step))
        elif records is None:
            rows.append(PlannedStep(step=step, seconds=seconds_from_figures(step, device)))
        else:
            seconds, evidence = seconds_from_curves(spec, step, records)
            rows.append(PlannedStep(step=step, seconds=seconds, evidence=evidence))
    return rows


def _order(row: PlannedStep, limit: float) -> tuple[int, float]:
    if row.seconds is None:
        return len(FITS), 0.0
    return FITS.index(row.step.fits(limit)), row.seconds.mid
