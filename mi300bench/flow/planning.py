"""A training step that this machine could never hold, planned: compiled without weights on virtual devices.

What is exact (arguments, bytes on the wire, FLOP) is kept apart from what is a bound (temporary memory) and from what is
predicted from published figures (seconds).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench import stats
from mi300bench.errors import NodeError, PlanError, ProbeError, RecordError
from mi300bench.fit.link import LinkModel, fit_link
from mi300bench.flow import trainers
from mi300bench.flow.published import LEAST_SHARE, MOST_SHARE
from mi300bench.hw.facts import find_device
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement
from mi300bench.store.select import by_point, require_comparable, select
from mi300bench.tune.mesh import Layers, Mesh, step_of
from mi300bench.units import ELEMENT_BYTES

DEVICE = "MI300X"
PLANNERS = ("lora405b",)
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
        return float(self.found["arguments"] + self.found["output"] - self.found["alias"] + self.found["temp"])

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


def seconds_of(found: dict[str, Any], precision: str, devices: int) -> Interval:
    """Return seconds of a step from published figures: computing between two shares of the peak, communication at the published
    all-reduce busbw of the node, from fully hidden to not at all."""
    device = find_device(DEVICE)
    assert device is not None
    peak, busbw = device.facts[precision].value, device.facts["all_reduce_busbw_8"].value
    wire = sum(found["received"].values()) / busbw if devices > 1 else 0.0
    slow, fast = (found["flop"] / (share * peak) for share in (LEAST_SHARE, MOST_SHARE))
    low, high = max(fast, wire), slow + wire
    return Interval(low=low, mid=(low * high) ** 0.5, high=high)


def measured_seconds(plan: Plan, records: Sequence[Measurement]) -> tuple[Interval, tuple[str, ...]]:
    """Return seconds of a step from curves that JAX measured, and their records; `RecordError` names what is missing.

    Products run between the median and the best rate of the measured ones; gathers and reductions take what their curves say.
    """
    config, found = plan.config, plan.found
    products = [r for r in select(records, "jax.gemm", dtype=config.precision)]
    if not products:
        raise RecordError(f"the store has no {config.precision} product of JAX", hint="mi300bench sweep run jax")
    require_comparable(products, what="the products")
    rates = [stats.flop_rate(r.work, stats.seconds_per_call(r)) for r in products]
    compute = Interval(
        low=found["flop"] / max(rates), mid=found["flop"] / stats.typical(rates), high=found["flop"] / stats.typical(rates)
    )

    def curve(op: str, ranks: int) -> LinkModel:
        chosen = [r for r in select(records, f"jax.collective.{op}") if r.world.ranks == ranks]
        if not chosen:
            raise RecordError(f"the store has no {op} among {ranks} devices from JAX", hint="mi300bench sweep run jax")
        require_comparable([*products, *chosen], what="the plan")
        return fit_link(list(by_point(chosen).values()))

    shapes = trainers.module("lora405b", "shapes")
    layer = sum(inside * outside for inside, outside in shapes.linears(config.model).values())
    element = ELEMENT_BYTES[config.precision]
    layers = Layers(
        count=config.model.layers,
        weight_bytes=float(element * layer),
        token_bytes=float(element * config.model.hidden),
        tokens=plan.tokens,
        remat=config.compute.remat,
    )
    step = step_of(Mesh(dp=config.mesh.dp, fsdp=config.mesh.fsdp, mp=config.mesh.mp), layers, curve, compute)
    return step.seconds, (*(r.id for r in products), *step.evidence)


def plan_all(trainer: str, configs: Sequence[Any]) -> Iterator[Plan]:
    """Yield the plan of each config, in order, as it is compiled; all have the same number of devices."""
    if trainer not in PLANNERS:
        raise PlanError(f"{trainer} cannot be planned", hint=f"one of {', '.join(PLANNERS)}")
    shapes = trainers.module(trainer, "shapes")
    tables = json.dumps([trainers.tables(trainer, config) for config in configs])
    command = [sys.executable, "-m", f"{trainers.TRAINERS[trainer]}.plan"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
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
                seconds=seconds_of(found, config.precision, config.mesh.devices),
            )
        said = process.stderr.read()
    if answered < len(configs):
        if "No module named 'jax'" in said or "No module named 'optax'" in said:
            raise NodeError("planning compiles with JAX, which is not installed", hint="pip install 'mi300bench[jax]'")
        raise ProbeError(
            f"the compiler ended after {answered} of {len(configs)} plans: {said.strip()[-400:]}", hint="see its message"
        )


def largest_that_fits(trainer: str, config: Any, limit: float, say: Callable[[str], None]) -> Plan | None:
    """Return the plan of the largest batch at the config's length whose bound fits, doubling from one sequence a group."""
    override = trainers.module(trainer, "config").override_all
    groups = config.mesh.dp * config.mesh.fsdp * config.data.accumulate
    best: Plan | None = None
    for doubling in range(MOST_DOUBLINGS):
        tried = override(config, {"data.batch": groups << doubling})
        (plan,) = plan_all(trainer, [tried])
        if plan.error or plan.bound > limit:
            break
        say(f"{tried.data.batch} x {tried.data.seq_len} tokens need at most {plan.bound / 1e9:.1f} GB a device")
        best = plan
    return best
