"""A training step that this machine could never hold, planned: compiled without weights on virtual devices.

What is exact (arguments, bytes on the wire, FLOP) is kept apart from what is a bound (temporary memory) and from what is
predicted (seconds: from a store's curves, or from published figures). Each plan is a record of the store.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mi300bench.errors import NodeError, PlanError, ProbeError
from mi300bench.hw.facts import find_device
from mi300bench.hw.reference import busbw_among
from mi300bench.measurement.settings import Settings
from mi300bench.published.assumptions import LEAST_SHARE, MOST_SHARE
from mi300bench.schema.candidate import Candidate
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement, Origin, Outcome, Scalar, Work, World, short_hash
from mi300bench.store.writer import RunWriter
from mi300bench.strategies.mesh.evidence import base_of
from mi300bench.strategies.mesh.job import MeshJob
from mi300bench.trainers import registry

DEVICE = "MI300X"
PLANNERS = ("lora405b",)
PLAN_METHOD = 1
# Without a limit from the caller, so many doublings of the batch are compiled to find the largest that fits.
MOST_DOUBLINGS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One mesh: the config, what the compiler found (bytes a device), closed forms, and seconds predicted; or why there is none."""

    config: Any
    found: dict[str, Any]
    gathered: float = 0.0
    reduced: float = 0.0
    gradients: float = 0.0
    flop: float = 0.0  # of the whole step over all devices
    seconds: Interval | None = None
    evidence: tuple[str, ...] = ()  # of the seconds, where they come from measured curves
    error: str = ""

    @property
    def bound(self) -> float:
        """Return the most bytes a device is known to need."""
        return float(
            self.found["arguments"]
            + self.found["output"]
            - self.found["alias"]
            + self.found["temp"]
        )

    @property
    def tokens(self) -> int:
        """Return the tokens of a step."""
        return int(self.config.data.batch * self.config.data.seq_len)

    def fits(self, limit: float) -> str:
        """Return ``yes`` where the bound is under `limit`, ``no`` where the arguments alone are over it, else ``perhaps``."""
        if self.bound <= limit:
            return "yes"
        return "no" if self.found["arguments"] > limit else "perhaps"


def memory_bytes() -> float:
    """Return the published memory of the device that is planned for."""
    facts = find_device(DEVICE)
    assert facts is not None
    return facts.facts["memory_bytes"].value


def seconds_of(found: dict[str, Any], precision: str) -> Interval:
    """Return seconds of a step from published figures: computing between two shares of the peak, communication at the published
    all-reduce busbw among as many GPUs as each group has, from fully hidden to not at all."""
    device = find_device(DEVICE)
    assert device is not None
    peak, wire = device.facts[precision].value, 0.0
    for size, received in found["among"].items():
        if int(size) > 1:
            busbw = busbw_among(device.key, int(size))
            assert busbw is not None
            wire += received / busbw[0]
    slow, fast = (found["flop"] / (share * peak) for share in (LEAST_SHARE, MOST_SHARE))
    low, high = max(fast, wire), slow + wire
    return Interval(low=low, mid=(low * high) ** 0.5, high=high)


def measured_seconds(
    trainer: str, plan: Plan, records: Sequence[Measurement]
) -> tuple[Interval, tuple[str, ...]]:
    """Return seconds of a step from what JAX measured, and the records; `RecordError` names what is missing."""
    kinds = [r.world.device for r in records if r.probe.startswith("jax.")]
    place = World(
        device=kinds[0] if kinds else "cpu", ranks=plan.config.mesh.devices, framework="jax"
    )
    predictor, _ = base_of(MeshJob(trainer=trainer, config=plan.config, world=place), records)
    predicted = predictor.predict(Candidate(options={}))
    return predicted.value, predicted.evidence


def require_planner(trainer: str) -> None:
    """Raise `PlanError` for a trainer whose step cannot be compiled without its weights."""
    if trainer not in PLANNERS:
        raise PlanError(f"{trainer} cannot be planned", hint=f"one of {', '.join(PLANNERS)}")


def plan_all(trainer: str, configs: Sequence[Any]) -> Iterator[Plan]:
    """Yield the plan of each config, in order, as it is compiled; all have the same number of devices."""
    require_planner(trainer)
    shapes = registry.module(trainer, "shapes")
    tables = json.dumps([registry.tables(trainer, config) for config in configs])
    command = [sys.executable, "-m", f"{registry.TRAINERS[trainer]}.plan"]
    with (
        tempfile.TemporaryFile(
            "w+"
        ) as errors,  # a pipe that nobody reads would stop the compiler when it is full
        subprocess.Popen(
            command,
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
            found = json.loads(line)
            answered += 1
            if "error" in found:
                yield Plan(config=config, found={}, error=found["error"])
                continue
            yield Plan(
                config=config,
                found=found,
                gathered=shapes.gathered_bytes(config),
                reduced=shapes.reduced_bytes(config),
                gradients=shapes.gradient_bytes(config),
                flop=shapes.flop_per_token(config) * config.data.batch * config.data.seq_len,
                seconds=seconds_of(found, config.precision),
            )
        process.wait()
        errors.seek(0)
        said = errors.read()
    if answered < len(configs):
        if "No module named 'jax'" in said or "No module named 'optax'" in said:
            raise NodeError(
                "planning compiles with JAX, which is not installed",
                hint="pip install 'mi300bench[jax]'",
            )
        raise ProbeError(
            f"the compiler ended after {answered} of {len(configs)} plans: {said.strip()[-400:]}",
            hint="see its message",
        )


def record_of(trainer: str, plan: Plan, *, run: str, settings: Settings) -> Measurement:
    """Return a plan as a record: seconds are the compiler's, bytes and FLOP a device's in one step."""
    config, found = plan.config, plan.found
    mesh = f"{config.mesh.dp},{config.mesh.fsdp},{config.mesh.mp}"
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    params: dict[str, Scalar] = {
        "preset": config.preset,
        "mesh": mesh,
        "data.batch": config.data.batch,
        "data.seq_len": config.data.seq_len,
        "data.accumulate": config.data.accumulate,
        "compute.remat": config.compute.remat,
        "compute.attention_block": config.compute.attention_block,
        "compute.loss_chunk": config.compute.loss_chunk,
        "lora.rank": config.lora.rank,
        "precision": config.precision,
    }
    point = short_hash([f"{trainer}.plan", PLAN_METHOD, params])
    bytes_of = ("weights", "adapters", "optimizer", "arguments", "output", "alias", "temp")
    return Measurement(
        probe=f"{trainer}.plan",
        method=PLAN_METHOD,
        params=params,
        outcome=Outcome.OK,
        id=short_hash([run, point, now]),
        point=point,
        run=run,
        world=World(device="cpu", ranks=config.mesh.devices, framework="jax"),
        samples=(found["compile_s"],),
        work=Work(flop=plan.flop),
        series={name: (float(found[name]),) for name in bytes_of}
        | {"bound": (plan.bound,), "device_flop": (float(found["flop"]),)}
        | {
            "received_kind": tuple(found["received"]),
            "received_bytes": tuple(float(v) for v in found["received"].values()),
        }
        | {"closed_form_bytes": (plan.gathered, plan.reduced, plan.gradients)},
        node=settings.node,
        device=f"{config.mesh.devices} virtual devices",
        started_at=now,
        origin=Origin.MODELLED,
        source="compiled for virtual devices, nothing was run; temp is the CPU compiler's bound",
    )


def keep(trainer: str, plans: Iterable[Plan], settings: Settings) -> list[tuple[Plan, Measurement]]:
    """Write each plan into the store as it comes; return the plans with their records, without those that have an error."""
    kept: list[tuple[Plan, Measurement]] = []
    header = {
        "question": f"What would a step of {trainer} hold and move?",
        "plan": "",
        "passes": 1,
        "points": 0,
    }
    with RunWriter(settings.store, node=settings.node, header=header) as writer:
        for plan in plans:
            if plan.error:
                settings.say(plan.error)
                continue
            record = record_of(trainer, plan, run=writer.run_id, settings=settings)
            writer.write(record)
            kept.append((plan, record))
        writer.finish()
    return kept


def largest_that_fits(
    trainer: str, config: Any, limit: float, say: Callable[[str], None]
) -> Plan | None:
    """Return the plan of the largest batch at the config's length whose bound fits, doubling from one sequence a group."""
    override = registry.module(trainer, "config").override_all
    groups = config.mesh.dp * config.mesh.fsdp * config.data.accumulate
    best: Plan | None = None
    for doubling in range(MOST_DOUBLINGS):
        tried = override(config, {"data.batch": groups << doubling})
        (plan,) = plan_all(trainer, [tried])
        if plan.error or plan.bound > limit:
            break
        say(
            f"{tried.data.batch} x {tried.data.seq_len} tokens need at most {plan.bound / 1e9:.1f} GB a device"
        )
        best = plan
    else:
        say(f"larger batches than {groups << MOST_DOUBLINGS - 1} were not tried")
    return best
