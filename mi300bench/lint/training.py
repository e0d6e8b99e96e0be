"""Tokens, memory sums, state per parameter, and what fits on how many devices.

throughput: tokens_per_second, step_seconds, batch, seq_len, tokens_per_step
memory: device, devices, parts (bytes), total, share (of all devices' memory), framework, instrument
state: parameters, bytes; `what` is weights, or adapters and optimizer
scaling: device, parameters, bytes_per_parameter, devices (the numbers it is stated for)
fit: device, needed_bytes (a device), stated (fits or not)
"""

import math
from collections.abc import Iterator

from mi300bench.lint.check import agree, cause_of, compared, found
from mi300bench.lint.peaks import device_of
from mi300bench.schema.claim import Claim
from mi300bench.schema.finding import Finding, LintVerdict
from mi300bench.units import format_bytes

TOKENS = "tokens a second are tokens of a step over its seconds"
# Bytes a trained parameter can take: a weight of four bits alone; weight, gradient, master and two moments, all float32.
LEAST_STATE, MOST_STATE = 0.5, 20.0
# What JAX takes of a device at its start, unless told otherwise (docs.jax.dev, "GPU memory allocation").
JAX_POOL = 0.75


def throughput(claim: Claim) -> Iterator[Finding]:
    """Yield whether batch, length, seconds and tokens a second agree."""
    rate, seconds, batch, length, step = (
        claim.number(name)
        for name in ("tokens_per_second", "step_seconds", "batch", "seq_len", "tokens_per_step")
    )
    whole = batch * length if batch and length else None
    if whole and step:
        yield compared(
            claim,
            "tokens of a step are batch x length",
            stated=step,
            expected=whole,
            figures=f"{step:,.0f} tokens a step, batch x length is {whole:,.0f}",
            next_step="count sequences over all ranks and accumulated parts",
        )
    tokens = step or whole
    if rate and seconds and tokens:
        expected = tokens / seconds
        figures = f"{rate:,.4g} tokens/s, {tokens:,.0f} tokens in {seconds:g} s are {expected:,.4g}"
        yield compared(
            claim,
            TOKENS,
            stated=rate,
            expected=expected,
            figures=figures,
            next_step="which of batch, length, seconds and rate is of another run, or of one rank?",
        )
    elif rate and seconds:
        yield found(
            claim,
            LintVerdict.NOT_JUDGED,
            TOKENS,
            f"{rate * seconds:,.0f} tokens a step follow; no batch is stated",
        )


def memory(claim: Claim) -> Iterator[Finding]:
    """Yield whether parts sum up, fit, and are the share that is stated."""
    parts, total, share = claim.numbers("parts"), claim.number("total"), claim.number("share")
    device, count = device_of(claim), claim.number("devices") or 1.0
    if parts and total:
        yield compared(
            claim,
            "parts sum up to the whole",
            stated=total,
            expected=sum(parts),
            figures=f"parts of {format_bytes(sum(parts))}, the whole is {format_bytes(total)}",
            next_step="find the part that is missing or counted twice",
        )
    capacity = device.facts["memory_bytes"].value * count if device else None
    if total and capacity:
        figures = f"{format_bytes(total)} of {format_bytes(capacity)} on {count:g} x {device.name if device else ''}"
        fits = total <= capacity
        yield found(
            claim,
            LintVerdict.SOUND if fits else LintVerdict.WRONG,
            "what is held fits",
            figures,
            cause=cause_of(total, capacity),
            next_step="check units and devices",
        )
        if share:
            yield compared(
                claim,
                "a share is the whole over the capacity",
                stated=share,
                expected=total / capacity,
                tolerance=0.1,
                figures=f"{figures} is {total / capacity:.0%}, stated as {share:.0%}",
                next_step="check GB for GiB, and of how many devices",
            )
    if (
        claim.text("framework") == "jax"
        and share
        and agree(share, JAX_POOL)
        and claim.text("instrument") == "pool"
    ):
        yield found(
            claim,
            LintVerdict.DOUBTFUL,
            "a constant share near 0.75 under JAX is its pool",
            f"{share:.0%} of the memory, the same from the first sample to the last",
            cause=f"JAX takes {JAX_POOL:.0%} of a device at its start; a tool outside sees the pool and not what is used",
            next_step="device.memory_stats(), or XLA_PYTHON_CLIENT_PREALLOCATE=false",
        )


def state(claim: Claim) -> Iterator[Finding]:
    """Yield whether bytes are a plausible number a parameter."""
    parameters, size = claim.number("parameters"), claim.number("bytes")
    rule = "state is between 0.5 and 20 bytes a trained parameter"
    if not parameters or not size:
        yield found(claim, LintVerdict.NOT_JUDGED, rule, "parameters or bytes are not stated")
        return
    each = size / parameters
    most = claim.number("most_bytes_per_parameter") or MOST_STATE
    figures = f"{format_bytes(size)} for {parameters:,.0f} parameters are {each:,.2f} bytes each"
    if LEAST_STATE * 0.95 <= each <= most * 1.05:
        yield found(claim, LintVerdict.SOUND, rule, figures)
        return
    bounds = f"{format_bytes(LEAST_STATE * parameters)} to {format_bytes(most * parameters)}"
    yield found(
        claim,
        LintVerdict.WRONG,
        rule,
        f"{figures}; {bounds} are possible",
        cause=claim.text("likely") or cause_of(each, most),
        next_step="count what is trained, and read what is live",
    )


def scaling(claim: Claim) -> Iterator[Finding]:
    """Yield on which of the stated numbers of devices a model can run at all."""
    device, parameters = device_of(claim), claim.number("parameters")
    each, counts = claim.number("bytes_per_parameter") or 2.0, claim.numbers("devices")
    rule = "scaling needs runs on fewer devices"
    if device is None or not parameters or not counts:
        yield found(
            claim,
            LintVerdict.NOT_JUDGED,
            rule,
            "device, parameters or numbers of devices are not stated",
        )
        return
    capacity = device.facts["memory_bytes"].value
    least = math.ceil(parameters * each / capacity)
    impossible = [int(n) for n in counts if n <= least]
    figures = f"weights alone are {format_bytes(parameters * each)}, {least} devices hold them with nothing beside"
    if impossible:
        yield found(
            claim,
            LintVerdict.DOUBTFUL,
            rule,
            f"{figures}: no run on {', '.join(map(str, impossible))} exists",
            cause="nothing to compare with",
            next_step="state the runs, or scale a smaller model",
        )
    else:
        yield found(claim, LintVerdict.SOUND, rule, figures)


def fit(claim: Claim) -> Iterator[Finding]:
    """Yield whether a stated fit agrees with the bytes that a device needs."""
    device, needed, stated = device_of(claim), claim.number("needed_bytes"), claim.text("stated")
    rule = "what needs less than the memory fits"
    if device is None or not needed:
        yield found(claim, LintVerdict.NOT_JUDGED, rule, "device or needed bytes are not stated")
        return
    fits = needed <= device.facts["memory_bytes"].value
    figures = f"{format_bytes(needed)} of {format_bytes(device.facts['memory_bytes'].value)} a device; stated: {stated}"
    is_right = (stated == "fits") == fits
    yield found(
        claim,
        LintVerdict.SOUND if is_right else LintVerdict.WRONG,
        rule,
        figures,
        cause=claim.text("likely"),
        next_step="mi300bench plan lora405b",
    )
