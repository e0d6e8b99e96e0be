"""A training step compiled without weights on virtual devices, even if it is too large to run here.

Arguments, communicated bytes and FLOP are exact; temporary memory is an upper bound. Each compiled
step is a record of the store.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mi300bench.errors import NodeError, PlanError, ProbeError
from mi300bench.measurement.settings import Settings
from mi300bench.schema.record import Measurement, Origin, Outcome, Scalar, Work, World, short_hash
from mi300bench.schema.run_settings import Batch, Mesh
from mi300bench.schema.trainer import TrainerSpec
from mi300bench.store.writer import RunWriter

PLAN_METHOD = 1
BYTES_OF = ("weights", "adapters", "optimizer", "arguments", "output", "alias", "temp")
LONGEST_ERROR = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledStep:
    """A compiled step on one mesh, or the error of the compiler.

    figures      of one device, from the compiler: bytes by kind, `received` bytes by kind of
                 collective, `among` by size of group, `collectives`, `flop`, `compile_s`, `tensors`
    closed_form  bytes that a device receives by kind, from the trainer's formulas
    flop         of the whole step over all devices
    """

    config: Any
    mesh: Mesh
    batch: Batch
    precision: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    closed_form: Mapping[str, float] = field(default_factory=dict)
    flop: float = 0.0
    error: str = ""

    @property
    def bound(self) -> float:
        """Return the upper bound of the bytes that a device needs."""
        f = self.figures
        return float(f["arguments"] + f["output"] - f["alias"] + f["temp"])

    @property
    def tokens(self) -> int:
        """Return the tokens of a step."""
        return self.batch.global_batch * self.batch.seq_len

    def fits(self, limit: float) -> str:
        """Return whether a device fits into `limit`: yes, no, or perhaps.

        It is ``yes`` if the bound fits, ``no`` if the arguments alone do not fit.
        """
        if self.bound <= limit:
            return "yes"
        return "no" if self.figures["arguments"] > limit else "perhaps"


def require_planner(spec: TrainerSpec) -> None:
    """Raise `PlanError` for a trainer whose step cannot be compiled without weights."""
    if not spec.planner:
        raise PlanError(
            f"{spec.name} cannot be planned: its step is not compiled ahead of time",
            hint="plan a trainer of the strategy mesh: mi300bench plan lora405b",
        )


def compile_all(spec: TrainerSpec, configs: Sequence[Any]) -> Iterator[CompiledStep]:
    """Yield the compiled step of each config, in order. All configs have the same devices.

    A new process compiles them, because JAX reads the number of virtual devices only once.
    """
    require_planner(spec)
    tables = json.dumps([spec.to_tables(config) for config in configs])
    with (
        # A file, because a full pipe without a reader would block the compiler.
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [sys.executable, "-m", spec.planner],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=dict(os.environ),
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(tables)
        process.stdin.close()
        answered = 0
        for config, line in zip(configs, process.stdout, strict=False):
            answered += 1
            yield _step_of(spec, config, json.loads(line))
        process.wait()
        errors.seek(0)
        stderr = errors.read()
    if answered < len(configs):
        raise _compiler_error(stderr, answered, len(configs))


def _step_of(spec: TrainerSpec, config: Any, figures: Mapping[str, Any]) -> CompiledStep:
    settings = spec.settings(config, 1)
    assert settings.mesh is not None and spec.mesh_model is not None
    parts: dict[str, Any] = {
        "config": config,
        "mesh": settings.mesh,
        "batch": settings.batch,
        "precision": settings.precision,
    }
    if "error" in figures:
        return CompiledStep(error=figures["error"], **parts)
    step = CompiledStep(
        figures=figures, closed_form=spec.mesh_model.closed_form_bytes(config), **parts
    )
    flop = spec.describe(config).flop_per_token * step.tokens
    return CompiledStep(figures=figures, closed_form=step.closed_form, flop=flop, **parts)


def _compiler_error(stderr: str, answered: int, asked: int) -> NodeError | ProbeError:
    if "No module named 'jax'" in stderr or "No module named 'optax'" in stderr:
        return NodeError(
            "planning compiles with JAX, which is not installed",
            hint="pip install 'mi300bench[jax]'",
        )
    return ProbeError(
        f"the compiler ended after {answered} of {asked} plans: {stderr.strip()[-LONGEST_ERROR:]}",
        hint="fix the cause in its message; if memory ran out, plan a smaller batch",
    )


def record_of(
    spec: TrainerSpec, step: CompiledStep, *, run: str, settings: Settings
) -> Measurement:
    """Return a compiled step as a record.

    Its seconds are those of compiling; bytes and FLOP are those of a device in one step.
    """
    figures = step.figures
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    planned = {key: spec.value_of(step.config, key) for key in spec.planned_keys}
    params: dict[str, Scalar] = {"preset": step.config.preset, "mesh": str(step.mesh), **planned}
    point = short_hash([f"{spec.name}.plan", PLAN_METHOD, params])
    received = figures["received"]
    return Measurement(
        probe=f"{spec.name}.plan",
        method=PLAN_METHOD,
        params=params,
        outcome=Outcome.OK,
        id=short_hash([run, point, now]),
        point=point,
        run=run,
        world=World(device="cpu", ranks=step.mesh.devices, framework=spec.framework),
        samples=(figures["compile_s"],),
        work=Work(flop=step.flop),
        series={
            **{name: (float(figures[name]),) for name in BYTES_OF},
            "bound": (step.bound,),
            "device_flop": (float(figures["flop"]),),
            "received_kind": tuple(received),
            "received_bytes": tuple(float(v) for v in received.values()),
            "closed_form_bytes": tuple(step.closed_form.values()),
        },
        node=settings.node,
        device=f"{step.mesh.devices} virtual devices",
        started_at=now,
        origin=Origin.MODELLED,
        source="compiled for virtual devices, nothing was run; temp is the CPU compiler's bound",
    )


def keep(
    spec: TrainerSpec, steps: Iterable[CompiledStep], settings: Settings
) -> list[tuple[CompiledStep, Measurement]]:
    """Write each compiled step into the store at once; return the steps with their records.

    A step with an error has no record; its error is printed.
    """
    kept: list[tuple[CompiledStep, Measurement]] = []
    question = f"How much memory and communication does a step of {spec.name} need?"
    header = {"question": question, "plan": "", "passes": 1, "points": 0}
    with RunWriter(settings.store, node=settings.node, header=header) as writer:
        for step in steps:
            if step.error:
                settings.say(step.error)
                continue
            record = record_of(spec, step, run=writer.run_id, settings=settings)
            writer.write(record)
            kept.append((step, record))
        writer.finish()
    return kept
