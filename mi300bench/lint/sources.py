"""Records and tuned configs as claims, so that the same rules check them."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from mi300bench import stats
from mi300bench.hw.facts import DeviceFacts, find_device
from mi300bench.lint.check import compared, finding_on
from mi300bench.lint.claim import Claim, Figure
from mi300bench.lint.finding import Finding, LintVerdict
from mi300bench.physics import COLLECTIVES
from mi300bench.schema.config import TunedConfig
from mi300bench.schema.probe import operation_of
from mi300bench.schema.record import Measurement, Outcome, Series

# A node's GPUs are all linked to each other; fewer ranks use only the links among themselves.
FULL_MESH = 8
# The series with figures that a tool printed beside its times, by the names of figures of claims.
STATED = {
    "algbw": "stated_algbw",
    "busbw": "stated_busbw",
    "bandwidth": "stated_bandwidth",
    "rate": "stated_rate",
    "best": "stated_best",
}


def _stated(series: Series) -> dict[str, Figure]:
    return {name: float(series[key][0]) for name, key in STATED.items() if series.get(key)}


def claims_of(records: Iterable[Measurement]) -> Iterator[Claim]:
    """Yield a claim for each record with a speed that a rule reads."""
    for record in records:
        if record.outcome is not Outcome.OK:
            continue
        device = _device(record)
        figures: dict[str, Figure] = {
            "seconds": stats.seconds_per_call(record),
            **_stated(record.series),
        }
        if device is not None:
            figures["device"] = device.key
        claim = _claim(record, figures)
        if claim is not None:
            yield replace(
                claim,
                figures={name: value for name, value in claim.figures.items() if _is_stated(value)},
            )


def _is_stated(value: Figure) -> bool:
    """Return whether a figure is stated: a probe that moves nothing has zero bytes."""
    return not isinstance(value, int | float) or (math.isfinite(value) and value > 0)


def _device(record: Measurement) -> DeviceFacts | None:
    """Return the facts of a record's device; None for a partition of it, or another of its name."""
    return find_device(
        record.device,
        arch=str(record.conditions.get("device_arch", "")),
        compute_units=int(str(record.conditions.get("compute_units") or 0)),
    )


def _claim(record: Measurement, figures: dict[str, Figure]) -> Claim | None:
    operation, params = operation_of(record.probe), record.params
    group, _, name = operation.partition(".")
    settings = " ".join(f"{key}={value}" for key, value in params.items())
    subject = f"{record.probe} {settings} on {record.node}"
    base = {
        "id": record.id,
        "subject": subject,
        "source": record.source,
        "origin": str(record.origin),
    }
    if group == "memory":
        moved = record.work.bytes_read + record.work.bytes_written
        more: dict[str, Figure] = {"bytes": moved, "pattern": name}
        return Claim(kind="memory_bandwidth", figures=figures | more, **base)
    if operation == "gemm":
        shape: dict[str, Figure] = {
            axis: float(str(params[axis])) for axis in ("m", "n", "k") if axis in params
        }
        # The FLOP of the record include its batch, if it has one.
        shape |= {"flop": record.work.flop} if record.work.flop else {}
        # The peak is that of the type in which the product is computed.
        dtype = str(params.get("compute", "")) or str(params.get("dtype", ""))
        return Claim(kind="product", figures=figures | shape | {"dtype": dtype}, **base)
    if operation == "transfer":
        transfer: dict[str, Figure] = {"bytes": record.work.message_bytes}
        return Claim(kind="transfer", figures=figures | transfer, **base)
    if group == "collective" and name in COLLECTIVES:
        link: dict[str, Figure] = {"op": name, "bytes": record.work.message_bytes}
        # An imported record has one rank where its log does not state the ranks.
        link |= {"ranks": float(record.world.ranks)} if record.world.ranks > 1 else {}
        return Claim(kind="transfer", figures=figures | link | _line(record), **base)
    return None


def _line(record: Measurement) -> dict[str, Figure]:
    """Return the line rate of a group, where its links are known.

    Within a node these are the links to the other ranks, across nodes the network adapters.
    """
    device, ranks = _device(record), record.world.ranks
    if device is None or ranks < 2:
        return {}
    hosts = [host for host in str(record.conditions.get("hosts", "")).split(",") if host]
    if len(hosts) > 1:
        nic = device.facts.get("nic_bandwidth")
        return {"line_rate": nic.value * ranks / len(hosts)} if nic else {}
    fact = device.facts.get("link_bandwidth")
    if fact is None:
        return {}
    return {
        "line_rate": fact.value * min(1.0, (ranks - 1) / (FULL_MESH - 1))
        if device.arch.startswith("gfx")
        else fact.value
    }


def judge_config(tuned: TunedConfig, *, name: str) -> Iterator[Finding]:
    """Yield whether a tuned config agrees with itself: values with choices, ratio with seconds."""
    for key, choice in tuned.choices.items():
        part, _, leaf = key.rpartition(".")
        table = tuned.config.get(part, {}) if part else tuned.config
        value = table.get(leaf) if isinstance(table, dict) else None
        claim = Claim(
            id=f"{name}:{key}", kind="statement", subject=key, source=name, origin=tuned.origin
        )
        figures = f"the config has {value!r}, its choice has {choice.value!r}"
        agrees = value == choice.value
        yield finding_on(
            claim,
            LintVerdict.SOUND if agrees else LintVerdict.WRONG,
            "a config has what its choices say",
            figures,
            cause="the file was edited after it was tuned",
            next_step="repeat mi300bench tune, or remove the choice from the file",
        )
    confirmed = tuned.confirmed
    if confirmed is not None:
        claim = Claim(
            id=f"{name}:confirmed",
            kind="ratio",
            subject="confirmed",
            source=name,
            origin=tuned.origin,
        )
        best = next((side for side in confirmed.sides if side.label == confirmed.candidate), None)
        if best is not None:
            expected = best.measured_s.mid / confirmed.default_s.mid
            yield compared(
                claim,
                "a ratio is that of its figures",
                stated=confirmed.ratio.mid,
                expected=expected,
                figures=f"{confirmed.ratio.mid:.3f} of the default's step is stated, "
                f"the seconds give {expected:.3f}",
                next_step="check whether the file was edited; repeat mi300bench tune",
                tolerance=0.15,
            )
