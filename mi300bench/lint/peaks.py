"""Bandwidth, rates and utilisation against what a device can do.

The figures of each kind of claim:

memory_bandwidth  device, bandwidth (or `best`, of several runs), pattern, share (of the peak, as
                  stated), bytes, seconds
product           device, m, n, k (or flop), dtype, rate, seconds, share
utilisation       device, devices, dtype, parameters, tokens_per_second, flop_per_parameter (6, or 4
                  with frozen weights), stated, mfu
bound             device, dtype, seq_len, stated (memory or compute), of attention over a whole
                  sequence at once
"""

from collections.abc import Iterator

from mi300bench.hw.facts import DeviceFacts, device_table
from mi300bench.hw.reference import normal
from mi300bench.lint.check import agree, cause_of, compared, finding_on
from mi300bench.lint.claim import Claim
from mi300bench.lint.finding import Finding, LintVerdict
from mi300bench.physics import gemm_flop
from mi300bench.units import Unit, format_bytes, format_quantity

UNDER_PEAK, SHARE, NORMAL, EFFICIENCY = (
    "a rate stays under the published peak",
    "a share is the rate over the peak",
    "a rate lies in what is published",
    "utilisation is useful FLOP over the peak",
)
# Rates under this share of the published range, or over this many times it, are doubtful.
LOW, HIGH = 0.6, 1.5
# A smaller footprint than this many times the last-level cache measures the cache.
OUT_OF_CACHE = 2.0
# The best of several runs is at most this many times the mean.
BEST_OVER_MEAN = 2.0
# MFU counts 6 FLOP per parameter and token; with all activations recomputed the hardware does 8.
RECOMPUTED = 8 / 6
# Names that libraries give the data types of peaks. All 8-bit floats have the same peak.
NAMES_OF_TYPES = {
    "bfloat16": ("bf16", "bf16_r"),
    "float16": ("half", "fp16", "f16", "f16_r"),
    "float32": ("float", "fp32", "f32", "f32_r"),
    "float8_e4m3": (
        *("fp8", "f8", "f8_r", "f8_fnuz_r", "float8_e4m3fn", "float8_e4m3fnuz"),
        *("bf8_r", "bf8_fnuz_r", "float8_e5m2", "float8_e5m2fnuz"),
    ),
}
TYPES = {name: dtype for dtype, names in NAMES_OF_TYPES.items() for name in names}
# A stated utilisation over this many times the MFU is not that of the model.
FAR = 1.5


def device_of(claim: Claim) -> DeviceFacts | None:
    """Return the facts of the claim's device, given by key or name; None where there are none."""
    name = claim.text("device")
    return next(
        (d for d in device_table() if d.key == name.lower() or (name and d.is_named_in(name))), None
    )


def _peak(device: DeviceFacts | None, name: str) -> float | None:
    fact = device.facts.get(name) if device else None
    return fact.value if fact else None


def _against_peak(claim: Claim, rate: float, unit: Unit, name: str) -> Iterator[Finding]:
    device = device_of(claim)
    peak = _peak(device, name)
    if device is None or peak is None:
        yield finding_on(
            claim,
            LintVerdict.NOT_JUDGED,
            UNDER_PEAK,
            f"no peak of {name} is known for "
            f"{claim.text('device') or 'this claim, which names no device'}",
        )
        return
    figures = (
        f"{format_quantity(rate, unit)} is {rate / peak:.1%} of the "
        f"{format_quantity(peak, unit)} of an {device.name}"
    )
    if rate > peak:
        yield compared(
            claim,
            UNDER_PEAK,
            stated=rate,
            expected=peak,
            figures=figures,
            tolerance=0.0,
            next_step="over 100 % is an error until it is explained; check units, cache, sparsity "
            "and device",
        )
    else:
        yield finding_on(claim, LintVerdict.SOUND, UNDER_PEAK, figures)
    share = claim.number("share")
    if share and not agree(rate / peak, share, 0.1):
        implied = format_quantity(rate / share, unit)
        other = next(
            (
                d
                for d in device_table()
                if d is not device and (p := _peak(d, name)) and agree(rate / share, p, 0.08)
            ),
            None,
        )
        yield finding_on(
            claim,
            LintVerdict.WRONG,
            SHARE,
            f"{figures}, not {share:.0%}; the share implies a peak of {implied}",
            cause=f"measured on an {other.name}, which has that peak"
            if other
            else "the share is of another device's peak",
            next_step="measure on the device that the claim names",
        )
    elif share:
        yield finding_on(claim, LintVerdict.SOUND, SHARE, f"{figures}, stated as {share:.0%}")


def against_published(
    claim: Claim, quantity: str, rate: float, unit: Unit, **conditions: float | str
) -> Iterator[Finding]:
    """Yield whether a rate is within the range published for the device and the conditions.

    Yields nothing where nothing comparable is published.
    """
    device = device_of(claim)
    known = normal(device.key, quantity, rate, **conditions) if device else None  # type: ignore[arg-type]
    if known is None:
        return
    # The rate of a product depends on its shape, and the best shapes are published.
    is_low = rate < LOW * known.low and quantity != "gemm"
    is_high = rate > HIGH * known.high and quantity != "gemm"
    yield finding_on(
        claim,
        LintVerdict.DOUBTFUL if is_low or is_high else LintVerdict.SOUND,
        NORMAL,
        f"{format_quantity(rate, unit)}: {known.as_text}",
        cause="bytes counted in another way, another device, or fewer ranks than stated"
        if is_high
        else "another device, a partition of one, a busy machine, or a slow kernel",
        next_step="measure on the node with mi300bench hbm, gemm-sweep or collectives, and compare "
        "with another node",
    )


def memory(claim: Claim) -> Iterator[Finding]:
    """Yield the findings on a memory bandwidth."""
    stated, best, size, seconds = (
        claim.number(name) for name in ("bandwidth", "best", "bytes", "seconds")
    )
    computed = size / seconds if size and seconds else None
    if stated and computed:
        rates = f"{format_quantity(stated, Unit.BYTE_PER_SECOND)} is stated, size over time gives "
        yield compared(
            claim,
            "size over time is bandwidth",
            stated=stated,
            expected=computed,
            figures=rates + format_quantity(computed, Unit.BYTE_PER_SECOND),
            next_step="check which bytes are counted, and the units",
        )
    if best and computed:
        yield _best(claim, best, computed)
    rate = best or stated or computed
    if not rate:
        return
    device = device_of(claim)
    cache = device.facts["cache_bytes"].value if device and "cache_bytes" in device.facts else 0.0
    if size and size < OUT_OF_CACHE * cache:
        figures = (
            f"{format_bytes(size)} are under {OUT_OF_CACHE:g} times the cache of "
            f"{format_bytes(cache)}: {format_quantity(rate, Unit.BYTE_PER_SECOND)} is the "
            "bandwidth of the cache"
        )
        yield finding_on(claim, LintVerdict.NOT_JUDGED, UNDER_PEAK, figures)
        return
    yield from _against_peak(claim, rate, Unit.BYTE_PER_SECOND, "memory_bandwidth")
    if pattern := claim.text("pattern"):
        yield from against_published(claim, f"memory.{pattern}", rate, Unit.BYTE_PER_SECOND)


def _best(claim: Claim, best: float, mean: float) -> Finding:
    """Return whether the best of several runs is over their mean, and not far over it."""
    figures = (
        f"the best is {format_quantity(best, Unit.BYTE_PER_SECOND)}, "
        f"the mean {format_quantity(mean, Unit.BYTE_PER_SECOND)}"
    )
    is_right = 0.98 * mean <= best <= BEST_OVER_MEAN * mean
    return finding_on(
        claim,
        LintVerdict.SOUND if is_right else LintVerdict.WRONG,
        "the best of several runs is the mean or somewhat more",
        figures,
        cause=cause_of(best, mean),
        next_step="check the units of the rate, of the size and of the time",
    )


def product(claim: Claim) -> Iterator[Finding]:
    """Yield the findings on the rate of a matrix product."""
    m, n, k, seconds, stated = (claim.number(name) for name in ("m", "n", "k", "seconds", "rate"))
    flop = claim.number("flop") or (gemm_flop(int(m), int(n), int(k)) if m and n and k else None)
    if stated and flop and seconds:
        computed = flop / seconds
        yield compared(
            claim,
            "FLOP over time is the rate",
            stated=stated,
            expected=computed,
            figures=f"{format_quantity(stated, Unit.FLOP_PER_SECOND)} is stated, "
            f"2MNK over time gives {format_quantity(computed, Unit.FLOP_PER_SECOND)}",
            next_step="count a multiply-add as two FLOP, and check the units of time",
        )
    rate = stated or (flop / seconds if flop and seconds else None)
    if rate:
        stated_type = claim.text("dtype").lower()
        dtype = TYPES.get(stated_type, stated_type) or "bfloat16"
        yield from _against_peak(claim, rate, Unit.FLOP_PER_SECOND, dtype)
        yield from against_published(
            claim, "gemm", rate, Unit.FLOP_PER_SECOND, dtype=dtype, flop=flop or 1e12
        )


def utilisation(claim: Claim) -> Iterator[Finding]:
    """Yield whether a stated utilisation or MFU agrees with the tokens per second."""
    peak = _peak(device_of(claim), claim.text("dtype") or "bfloat16")
    parameters, rate = claim.number("parameters"), claim.number("tokens_per_second")
    if not (peak and parameters and rate):
        yield finding_on(
            claim,
            LintVerdict.NOT_JUDGED,
            EFFICIENCY,
            "the claim states no device with a known peak, no parameters or no tokens per second",
        )
        return
    flop = (claim.number("flop_per_parameter") or 6.0) * parameters * rate
    mfu = flop / ((claim.number("devices") or 1.0) * peak)
    figures = f"{rate:,.0f} tokens/s are an MFU of {mfu:.2%}"
    if mfu > 1:
        yield compared(
            claim,
            EFFICIENCY,
            stated=mfu,
            expected=1.0,
            figures=figures,
            tolerance=0.0,
            next_step="over 100 % is not possible; check parameters, tokens, devices and units",
        )
        return
    named, busy = claim.number("mfu"), claim.number("stated")
    if named and agree(named, RECOMPUTED * mfu, 0.1) and not agree(named, mfu, 0.1):
        yield finding_on(
            claim,
            LintVerdict.DOUBTFUL,
            EFFICIENCY,
            f"{figures}, stated as {named:.2%}",
            cause="recomputed FLOP are counted too: that is hardware utilisation (HFU)",
            next_step="compute MFU from 6 FLOP per parameter and token, and state HFU beside it",
        )
    elif named:
        yield compared(
            claim,
            EFFICIENCY,
            stated=named,
            expected=mfu,
            figures=f"{figures}, stated as {named:.2%}",
            tolerance=0.1,
            next_step="check the active parameters, the tokens per second of all devices and the "
            "peak",
        )
    elif busy and busy > FAR * mfu:
        yield finding_on(
            claim,
            LintVerdict.WRONG,
            EFFICIENCY,
            f"{figures}; {busy:.0%} is stated",
            cause="tools report the share of time that a device is busy, not its FLOP",
            next_step="state MFU with its formula",
        )
    else:
        yield finding_on(claim, LintVerdict.SOUND, EFFICIENCY, figures)


def bound(claim: Claim) -> Iterator[Finding]:
    """Yield whether attention over a whole sequence is bound by memory or by computation.

    Its intensity is s/2 FLOP per byte in two-byte types, where the scores stay on chip.
    """
    device = device_of(claim)
    peak, moved = (
        _peak(device, claim.text("dtype") or "bfloat16"),
        _peak(device, "memory_bandwidth"),
    )
    length = claim.number("seq_len")
    if not (peak and moved and length):
        yield finding_on(
            claim,
            LintVerdict.NOT_JUDGED,
            "intensity over the ridge is bound by compute",
            "the claim states no device with known peaks, or no length",
        )
        return
    ridge, intensity = peak / moved, length / 2
    real = "memory" if intensity < ridge else "compute"
    figures = (
        f"attention over {length:,.0f} tokens has about {intensity:,.0f} FLOP per byte, "
        f"the ridge is at {ridge:.0f}"
    )
    stated = claim.text("stated")
    is_right = stated == real
    yield finding_on(
        claim,
        LintVerdict.SOUND if is_right else LintVerdict.WRONG,
        "intensity over the ridge is bound by compute",
        figures,
        cause="it is true of decoding, one token at a time",
        next_step="state which phase is meant: training, prefill or decoding",
    )
