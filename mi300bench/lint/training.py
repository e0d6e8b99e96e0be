"""Tokens, memory sums, state per parameter, and what fits on how many devices.

The figures of each kind of claim:

throughput  tokens_per_second, step_seconds, batch, seq_len, tokens_per_step
memory      device, devices, parts (bytes), total, share (of the memory of all devices), framework,
            instrument
state       parameters, bytes; `what` is weights, or adapters and optimizer
scaling     device, parameters, bytes_per_parameter, devices (the numbers that it is stated for)
fit         device, needed_bytes (of one device), stated (fits, or does not fit)
"""

import math
from collections.abc import Iterator

from mi300bench.lint.check import agree, cause_of, compared, finding_on
from mi300bench.lint.claim import Claim
from mi300bench.lint.finding import Finding, LintVerdict
from mi300bench.lint.peaks import device_of
from mi300bench.units import format_bytes

TOKENS = "tokens a second are tokens of a step over its seconds"
# The fewest and the most bytes per trained parameter: a four-bit weight alone; or weight, gradient,
# master weight and two moments, all in float32.
LEAST_STATE, MOST_STATE = 0.5, 20.0
# The share of a device's memory that JAX allocates at its start by default (docs.jax.dev, "GPU
# memory allocation").
JAX_POOL = 0.75


def throughput(claim: Claim) -> Iterator[Finding]:
    """Yield whether batch, length, seconds and tokens per second agree."""
    rate, seconds, batch, length, step = (
        claim.number(name)
        for name in ("tokens_per_second", "step_seconds", "batch", "seq_len", "tokens_per_step")
    )
    product = batch * length if batch and length else None
    if product and step:
        yield compared(
            claim,
            "tokens of a step are batch x length",
            stated=step,
            expected=product,
            figures=f"{step:,.0f} tokens per step are stated, batch x length is {product:,.0f}",
            next_step="count the sequences of all ranks and all accumulated micro-batches",
        )
    tokens = step or product
    if rate and seconds and tokens:
        expected = tokens / seconds
        figures = (
            f"{rate:,.4g} tokens/s are stated, "
            f"{tokens:,.0f} tokens in {seconds:g} s are {expected:,.4g}"
        )
        yield compared(
            claim,
            TOKENS,
            stated=rate,
            expected=expected,
            figures=figures,
            next_step="check that all four figures are of the same run and of all ranks",
        )
    elif rate and seconds:
        yield finding_on(
            claim,
            LintVerdict.NOT_JUDGED,
            TOKENS,
            f"{rate * seconds:,.0f} tokens per step follow; the claim states no batch to check",
        )


def memory(claim: Claim) -> Iterator[Finding]:
    """Yield whether parts sum up to the total, fit, and are the stated share of the memory."""
    parts, total, share = claim.numbers("parts"), claim.number("total"), claim.number("share")
    device, count = device_of(claim), claim.number("devices") or 1.0
    if parts and total:
        yield compared(
            claim,
            "parts sum up to the whole",
            stated=total,
            expected=sum(parts),
            figures=f"{format_bytes(total)} is stated, the parts are {format_bytes(sum(parts))}",
            next_step="look for a part that is missing or counted twice",
        )
    capacity = device.facts["memory_bytes"].value * count if device else None
    if total and capacity:
        figures = (
            f"{format_bytes(total)} of {format_bytes(capacity)} on "
            f"{count:g} x {device.name if device else ''}"
        )
        fits = total <= capacity
        yield finding_on(
            claim,
            LintVerdict.SOUND if fits else LintVerdict.WRONG,
            "what is held fits",
            figures,
            cause=cause_of(total, capacity),
            next_step="check the units and the number of devices",
        )
        if share:
            yield compared(
                claim,
                "a share is the whole over the capacity",
                stated=share,
                expected=total / capacity,
                tolerance=0.1,
                figures=f"{figures} is {total / capacity:.0%}, stated as {share:.0%}",
                next_step="check GB against GiB, and the number of devices",
            )
    if (
        claim.text("framework") == "jax"
        and share
        and agree(share, JAX_POOL)
        and claim.text("instrument") == "pool"
    ):
        yield finding_on(
            claim,
            LintVerdict.DOUBTFUL,
            "a constant share near 0.75 under JAX is its pool",
            f"{share:.0%} of the memory, the same in every sample",
            cause=f"JAX allocates {JAX_POOL:.0%} of a device at its start; a tool outside the "
            "process sees that pool, not the memory in use",
            next_step="read device.memory_stats(), or set XLA_PYTHON_CLIENT_PREALLOCATE=false",
        )


def state(claim: Claim) -> Iterator[Finding]:
    """Yield whether the bytes per parameter are plausible."""
    parameters, size = claim.number("parameters"), claim.number("bytes")
    rule = "state is between 0.5 and 20 bytes a trained parameter"
    if not parameters or not size:
        figures = "the claim does not state parameters and bytes"
        yield finding_on(claim, LintVerdict.NOT_JUDGED, rule, figures)
        return
    each = size / parameters
    most = claim.number("most_bytes_per_parameter") or MOST_STATE
    figures = f"{format_bytes(size)} for {parameters:,.0f} parameters are {each:,.2f} bytes each"
    if LEAST_STATE * 0.95 <= each <= most * 1.05:
        yield finding_on(claim, LintVerdict.SOUND, rule, figures)
        return
    bounds = f"{format_bytes(LEAST_STATE * parameters)} to {format_bytes(most * parameters)}"
    yield finding_on(
        claim,
        LintVerdict.WRONG,
        rule,
        f"{figures}; {bounds} are possible",
        cause=claim.text("likely") or cause_of(each, most),
        next_step="count the trained parameters, and read the memory in use from the framework",
    )


def scaling(claim: Claim) -> Iterator[Finding]:
    """Yield whether a model's weights fit on the stated numbers of devices."""
    device, parameters = device_of(claim), claim.number("parameters")
    each, counts = claim.number("bytes_per_parameter") or 2.0, claim.numbers("devices")
    rule = "scaling needs runs on fewer devices"
    if device is None or not parameters or not counts:
        yield finding_on(
            claim,
            LintVerdict.NOT_JUDGED,
            rule,
            "the claim does not state device, parameters and numbers of devices",
        )
        return
    capacity = device.facts["memory_bytes"].value
    least = math.ceil(parameters * each / capacity)
    impossible = [int(n) for n in counts if n <= least]
    figures = (
        f"the weights by themselves are {format_bytes(parameters * each)} and fill {least} devices"
    )
    if impossible:
        yield finding_on(
            claim,
            LintVerdict.DOUBTFUL,
            rule,
            f"{figures}: a run on {', '.join(map(str, impossible))} devices is not possible",
            cause="there is no run on fewer devices to compare with",
            next_step="state the runs that were compared, or scale a smaller model",
        )
    else:
        yield finding_on(claim, LintVerdict.SOUND, rule, figures)


def fit(claim: Claim) -> Iterator[Finding]:
    """Yield whether the stated fit agrees with the bytes that are needed on a device."""
    device, needed, stated = device_of(claim), claim.number("needed_bytes"), claim.text("stated")
    rule = "what needs less than the memory fits"
    if device is None or not needed:
        figures = "the claim does not state device and needed bytes"
        yield finding_on(claim, LintVerdict.NOT_JUDGED, rule, figures)
        return
    capacity = device.facts["memory_bytes"].value
    fits = needed <= capacity
    figures = (
        f"{format_bytes(needed)} of {format_bytes(capacity)} are needed on a device; "
        f"stated: {stated}"
    )
    is_right = (stated == "fits") == fits
    yield finding_on(
        claim,
        LintVerdict.SOUND if is_right else LintVerdict.WRONG,
        rule,
        figures,
        cause=claim.text("likely"),
        next_step="compile the step and read its memory: mi300bench plan lora405b",
    )
