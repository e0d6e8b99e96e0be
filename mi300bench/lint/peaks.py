"""Bandwidth, rates and utilisation against what a device can do.

memory: device, bandwidth (or `best`, of several runs), pattern, share (of the peak, as stated), bytes, seconds
product: device, m, n, k (or flop), dtype, rate, seconds, share
utilisation: device, devices, dtype, parameters, tokens_per_second, flop_per_parameter (6, or 4 with frozen weights), stated, mfu
bound: device, dtype, seq_len, stated (memory or compute): attention over a whole sequence at once
"""

from collections.abc import Iterator

from mi300bench.hw.facts import DeviceFacts, device_table
from mi300bench.hw.reference import normal
from mi300bench.lint.check import agree, cause_of, compared, found
from mi300bench.physics import gemm_flop
from mi300bench.schema.claim import Claim
from mi300bench.schema.finding import Finding, LintVerdict
from mi300bench.units import Unit, format_bytes, format_quantity

UNDER_PEAK, SHARE, NORMAL, EFFICIENCY = (
    "a rate stays under the published peak",
    "a share is the rate over the peak",
    "a rate lies in what is published",
    "utilisation is useful FLOP over the peak",
)
# Under this share of what others published, or over this many times of it, somebody should look.
LOW, HIGH = 0.6, 1.5
# A pattern over less than this many times the last cache is the cache's bandwidth, not the memory's.
OUT_OF_CACHE = 2.0
# The best of several runs is at most this many times the mean.
BEST_OVER_MEAN = 2.0
# MFU counts 6 FLOP a parameter and token; with all activations computed again the hardware does 8.
RECOMPUTED = 8 / 6
# A peak is that of the data type, whatever a library calls it.
TYPES = {
    "bf16": "bfloat16", "bf16_r": "bfloat16", "half": "float16", "fp16": "float16", "f16": "float16", "f16_r": "float16",
    "float": "float32", "fp32": "float32", "f32": "float32", "f32_r": "float32", "fp8": "float8_e4m3", "f8": "float8_e4m3",
    "f8_r": "float8_e4m3", "float8_e4m3fn": "float8_e4m3", "float8_e4m3fnuz": "float8_e4m3", "f8_fnuz_r": "float8_e4m3",
    "float8_e5m2": "float8_e4m3", "float8_e5m2fnuz": "float8_e4m3", "bf8_r": "float8_e4m3", "bf8_fnuz_r": "float8_e4m3",
}  # fmt: skip
# Utilisation stated over this many times what follows from the tokens is not efficiency.
FAR = 1.5


def device_of(claim: Claim) -> DeviceFacts | None:
    """Return the facts of the claim's device, by key or name."""
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
        yield found(
            claim,
            LintVerdict.NOT_JUDGED,
            UNDER_PEAK,
            f"no {name} peak is known of {claim.text('device') or 'an unnamed device'}",
        )
        return
    figures = f"{format_quantity(rate, unit)} is {rate / peak:.1%} of the {format_quantity(peak, unit)} of an {device.name}"
    if rate > peak:
        yield compared(
            claim,
            UNDER_PEAK,
            stated=rate,
            expected=peak,
            figures=figures,
            tolerance=0.0,
            next_step="over 100 % is an error until explained: units, a cache, sparsity, or another device",
        )
    else:
        yield found(claim, LintVerdict.SOUND, UNDER_PEAK, figures)
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
        yield found(
            claim,
            LintVerdict.WRONG,
            SHARE,
            f"{figures}, not {share:.0%}; the share implies a peak of {implied}",
            cause=f"measured on an {other.name}, whose peak that is"
            if other
            else "another device's peak",
            next_step="measure on the device that is named",
        )
    elif share:
        yield found(claim, LintVerdict.SOUND, SHARE, f"{figures}, stated as {share:.0%}")


def against_published(
    claim: Claim, quantity: str, rate: float, unit: Unit, **conditions: float | str
) -> Iterator[Finding]:
    """Yield whether a rate is normal: within what others published for the same device and conditions, if anything is."""
    device = device_of(claim)
    known = normal(device.key, quantity, rate, **conditions) if device else None  # type: ignore[arg-type]
    if known is None:
        return
    # A product's rate goes with its shape, and the best shapes are published: a low one is no doubt.
    is_low = rate < LOW * known.low and quantity != "gemm"
    is_high = rate > HIGH * known.high and quantity != "gemm"
    yield found(
        claim,
        LintVerdict.DOUBTFUL if is_low or is_high else LintVerdict.SOUND,
        NORMAL,
        f"{format_quantity(rate, unit)}: {known.as_text}",
        cause="another counting, another device, or fewer ranks than stated"
        if is_high
        else "another device, a partition, a busy machine, or a kernel that is the limit itself",
        next_step="mi300bench hbm, gemm-sweep or collectives on the node, and compare with another node",
    )


def memory(claim: Claim) -> Iterator[Finding]:
    """Yield what a memory bandwidth says."""
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
            next_step="check what counts as moved, and the units",
        )
    if best and computed:
        yield _best(claim, best, computed)
    rate = best or stated or computed
    if not rate:
        return
    device = device_of(claim)
    cache = device.facts["cache_bytes"].value if device and "cache_bytes" in device.facts else 0.0
    if size and size < OUT_OF_CACHE * cache:
        said = f"{format_bytes(size)} lie in the cache of {format_bytes(cache)}: {format_quantity(rate, Unit.BYTE_PER_SECOND)} is its"
        yield found(claim, LintVerdict.NOT_JUDGED, UNDER_PEAK, said)
        return
    yield from _against_peak(claim, rate, Unit.BYTE_PER_SECOND, "memory_bandwidth")
    if pattern := claim.text("pattern"):
        yield from against_published(claim, f"memory.{pattern}", rate, Unit.BYTE_PER_SECOND)


def _best(claim: Claim, best: float, mean: float) -> Finding:
    """Return whether the best of several runs lies over their mean, and not far over it."""
    figures = f"the best is {format_quantity(best, Unit.BYTE_PER_SECOND)}, the mean {format_quantity(mean, Unit.BYTE_PER_SECOND)}"
    is_right = 0.98 * mean <= best <= BEST_OVER_MEAN * mean
    return found(
        claim,
        LintVerdict.SOUND if is_right else LintVerdict.WRONG,
        "the best of several runs is the mean or somewhat more",
        figures,
        cause=cause_of(best, mean),
        next_step="check the units of the rate, of the size and of the time",
    )


def product(claim: Claim) -> Iterator[Finding]:
    """Yield what a matrix product's rate says."""
    m, n, k, seconds, stated = (claim.number(name) for name in ("m", "n", "k", "seconds", "rate"))
    flop = claim.number("flop") or (gemm_flop(int(m), int(n), int(k)) if m and n and k else None)
    if stated and flop and seconds:
        computed = flop / seconds
        yield compared(
            claim,
            "FLOP over time is the rate",
            stated=stated,
            expected=computed,
            figures=f"{format_quantity(stated, Unit.FLOP_PER_SECOND)} is stated, 2MNK over time gives "
            f"{format_quantity(computed, Unit.FLOP_PER_SECOND)}",
            next_step="count a multiply-add as two, and check the units of time",
        )
    rate = stated or (flop / seconds if flop and seconds else None)
    if rate:
        told = claim.text("dtype").lower()
        dtype = TYPES.get(told, told) or "bfloat16"
        yield from _against_peak(claim, rate, Unit.FLOP_PER_SECOND, dtype)
        yield from against_published(
            claim, "gemm", rate, Unit.FLOP_PER_SECOND, dtype=dtype, flop=flop or 1e12
        )


def utilisation(claim: Claim) -> Iterator[Finding]:
    """Yield what tokens a second say of a stated utilisation or MFU."""
    peak = _peak(device_of(claim), claim.text("dtype") or "bfloat16")
    parameters, rate = claim.number("parameters"), claim.number("tokens_per_second")
    if not (peak and parameters and rate):
        yield found(
            claim,
            LintVerdict.NOT_JUDGED,
            EFFICIENCY,
            "device, parameters or tokens a second are not stated",
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
            next_step="over 100 % is an error: parameters, tokens, devices or units",
        )
        return
    named, busy = claim.number("mfu"), claim.number("stated")
    if named and agree(named, RECOMPUTED * mfu, 0.1) and not agree(named, mfu, 0.1):
        yield found(
            claim,
            LintVerdict.DOUBTFUL,
            EFFICIENCY,
            f"{figures}, stated as {named:.2%}",
            cause="what is computed again counts as well: that is the use of the hardware, not of the model",
            next_step="state MFU from 6 FLOP a parameter and token, the other one beside it",
        )
    elif named:
        yield compared(
            claim,
            EFFICIENCY,
            stated=named,
            expected=mfu,
            figures=f"{figures}, stated as {named:.2%}",
            tolerance=0.1,
            next_step="check parameters (active ones), tokens a second over all devices, and the peak",
        )
    elif busy and busy > FAR * mfu:
        yield found(
            claim,
            LintVerdict.WRONG,
            EFFICIENCY,
            f"{figures}; {busy:.0%} is stated",
            cause="how busy a device is told to be, which is not how much of it is used",
            next_step="state MFU, with its formula",
        )
    else:
        yield found(claim, LintVerdict.SOUND, EFFICIENCY, figures)


def bound(claim: Claim) -> Iterator[Finding]:
    """Yield whether attention over a whole sequence is bound by memory: s/2 FLOP a byte in two-byte types, kept on chip."""
    device = device_of(claim)
    peak, moved = (
        _peak(device, claim.text("dtype") or "bfloat16"),
        _peak(device, "memory_bandwidth"),
    )
    length = claim.number("seq_len")
    if not (peak and moved and length):
        yield found(
            claim,
            LintVerdict.NOT_JUDGED,
            "intensity over the ridge is bound by compute",
            "device or length are not stated",
        )
        return
    ridge, intensity = peak / moved, length / 2
    real = "memory" if intensity < ridge else "compute"
    figures = f"attention over {length:,.0f} tokens has about {intensity:,.0f} FLOP a byte, the ridge is at {ridge:.0f}"
    stated = claim.text("stated")
    is_right = stated == real
    yield found(
        claim,
        LintVerdict.SOUND if is_right else LintVerdict.WRONG,
        "intensity over the ridge is bound by compute",
        figures,
        cause="true of decoding, a token at a time",
        next_step="say which phase is meant",
    )
