"""Records and tuned configs as claims: what a measurement, an imported log or a config states is held against the same rules."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from mi300bench import stats
from mi300bench.hw.facts import DeviceFacts, find_device
from mi300bench.lint.check import compared, found
from mi300bench.physics import COLLECTIVES
from mi300bench.schema.claim import Claim, Figure
from mi300bench.schema.config import TunedConfig
from mi300bench.schema.finding import Finding, LintVerdict
from mi300bench.schema.record import Measurement, Outcome, Series

# GPUs of a node that are all linked to each other: fewer ranks have links to the others alone.
FULL_MESH = 8
# A record says which series hold figures that a tool printed beside its times.
STATED = {
    "stated_algbw": "algbw", "stated_busbw": "busbw", "stated_bandwidth": "bandwidth", "stated_rate": "rate", "stated_best": "best",
}  # fmt: skip


def _stated(series: Series) -> dict[str, Figure]:
    return {name: float(series[key][0]) for key, name in STATED.items() if series.get(key)}


def claims_of(records: Iterable[Measurement]) -> Iterator[Claim]:
    """Yield what each record with a speed states, where a rule reads it."""
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
                figures={name: value for name, value in claim.figures.items() if _tells(value)},
            )


def _tells(value: Figure) -> bool:
    """Return whether a record states a figure at all: a probe that moves nothing has no bytes."""
    return not isinstance(value, int | float) or (math.isfinite(value) and value > 0)


def _device(record: Measurement) -> DeviceFacts | None:
    """Return the facts of a record's device: not of a part of it, nor of another with its name."""
    told = record.conditions
    return find_device(
        record.device,
        arch=str(told.get("device_arch", "")),
        compute_units=int(str(told.get("compute_units") or 0)),
    )


def _claim(record: Measurement, figures: dict[str, Figure]) -> Claim | None:
    probe, p = record.probe.removeprefix("jax."), record.params
    subject = f"{record.probe} {' '.join(f'{name}={value}' for name, value in p.items())} on {record.node}"
    base = {
        "id": record.id,
        "subject": subject,
        "source": record.source,
        "origin": str(record.origin),
    }
    if probe.startswith("memory."):
        moved = record.work.bytes_read + record.work.bytes_written
        more: dict[str, Figure] = {"bytes": moved, "pattern": probe.removeprefix("memory.")}
        return Claim(kind="memory_bandwidth", figures=figures | more, **base)
    if probe == "gemm":
        shape: dict[str, Figure] = {
            name: float(str(p[name])) for name in ("m", "n", "k") if name in p
        }
        shape |= (
            {"flop": record.work.flop} if record.work.flop else {}
        )  # with its batch, where it has one
        dtype = str(p.get("compute", "")) or str(
            p.get("dtype", "")
        )  # a product of another type inside has that one's peak
        return Claim(kind="product", figures=figures | shape | {"dtype": dtype}, **base)
    if probe == "transfer":
        return Claim(
            kind="transfer", figures=figures | {"bytes": record.work.message_bytes}, **base
        )
    op = probe.removeprefix("collective.")
    if op in COLLECTIVES and op != probe:
        link: dict[str, Figure] = {"op": op, "bytes": record.work.message_bytes}
        link |= (
            {"ranks": float(record.world.ranks)} if record.world.ranks > 1 else {}
        )  # one is none: a log did not tell
        return Claim(kind="transfer", figures=figures | link | _line(record), **base)
    return None


def _line(record: Measurement) -> dict[str, Figure]:
    """Return the line rate of a group, where its links are known: in a node those to the other ranks, beyond it the adapters."""
    device = _device(record)
    ranks, hosts = (
        record.world.ranks,
        [host for host in str(record.conditions.get("hosts", "")).split(",") if host],
    )
    if device is None or ranks < 2:
        return {}
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
    """Yield whether a tuned config agrees with itself: choices with values, ratio with seconds, tokens, capacity."""
    for key, choice in tuned.choices.items():
        part, _, leaf = key.rpartition(".")
        table = tuned.config.get(part, {}) if part else tuned.config
        value = table.get(leaf) if isinstance(table, dict) else None
        claim = Claim(
            id=f"{name}:{key}", kind="statement", subject=key, source=name, origin=tuned.origin
        )
        figures = f"the config has {value!r}, its choice says {choice.value!r}"
        agrees = value == choice.value
        yield found(
            claim,
            LintVerdict.SOUND if agrees else LintVerdict.WRONG,
            "a config has what its choices say",
            figures,
            cause="the file was edited after it was tuned",
            next_step="tune again, or drop the choice",
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
                figures=f"{confirmed.ratio.mid:.3f} of the default's step is stated, the seconds give {expected:.3f}",
                next_step="the file was edited, or sides were mixed up",
                tolerance=0.15,
            )
