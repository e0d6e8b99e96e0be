"""A transfer: size over time against the stated bandwidth, and bus bandwidth against the line rate.

Figures: bytes (or both readings of an ambiguous unit), seconds, op, ranks or ranks_at_least,
line_rate; and any of algbw, busbw, or `bandwidth` where the claim does not state which it is. A
claim of one rank is taken as one without ranks.
"""

from collections.abc import Iterator

from mi300bench.errors import RecordError
from mi300bench.lint.check import TOLERANCE, agree, cause_of, finding_on
from mi300bench.lint.claim import Claim
from mi300bench.lint.finding import Finding, LintVerdict
from mi300bench.lint.peaks import against_published, device_of
from mi300bench.physics import COLLECTIVES, busbw_factor
from mi300bench.units import Unit, format_quantity

SIZE_OVER_TIME, LINE_RATE = "size over time is bandwidth", "bus bandwidth stays under the line rate"
# A measured busbw may come out this much over a rate that was rounded.
OVER = 1.02
# Collective benchmarks print GB/s with two decimals: this is half of the last one, in bytes/s.
PRINTED = 0.5e7
# Names that other tools give the operations.
ALIASES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
}


def op_of(claim: Claim) -> str:
    """Return the name that we give the claim's operation; ``send_recv`` where it states none."""
    stated = claim.text("op").lower() or "send_recv"
    op = ALIASES.get(stated.replace("_", ""), stated)
    if op not in COLLECTIVES:
        raise RecordError(
            f"{claim.id}: unknown operation {stated!r}", hint=f"one of {', '.join(COLLECTIVES)}"
        )
    return op


def ranks_of(claim: Claim) -> int:
    """Return the claim's ranks; 0 where it states none, or one, which exchanges nothing."""
    ranks = int(claim.number("ranks") or 0)
    return ranks if ranks > 1 else 0


def _factors(claim: Claim) -> tuple[float, float]:
    """Return the smallest and the largest busbw / algbw for the claim's operation and ranks."""
    op = op_of(claim)
    if ranks := ranks_of(claim):
        exact = busbw_factor(op, ranks)
        return exact, exact
    least = max(2, int(claim.number("ranks_at_least") or 2))
    return busbw_factor(op, least), max(busbw_factor(op, least), busbw_factor(op, 1 << 20))


def _sizes(claim: Claim) -> tuple[float, ...]:
    one = claim.number("bytes")
    return (one,) if one else claim.numbers("bytes")


def rates(claim: Claim) -> tuple[float, ...]:
    """Return size over time for each reading of the size."""
    seconds = claim.number("seconds")
    return tuple(size / seconds for size in _sizes(claim)) if seconds else ()


def judge(claim: Claim) -> Iterator[Finding]:
    """Yield whether the figures of a transfer agree with each other and with the line rate."""
    least, most = _factors(claim)
    computed = rates(claim)
    algbw, busbw, unnamed = (claim.number(name) for name in ("algbw", "busbw", "bandwidth"))
    others = (
        [(least, "busbw taken for algbw, or algbw for busbw")]
        if least == most and abs(least - 1) > TOLERANCE
        else []
    )
    if algbw is not None and computed:
        yield _size_over_time(claim, algbw, computed, "algbw", others)
    if busbw is not None and computed:
        # Without ranks any value between the smallest and the largest factor is possible.
        scaled = tuple(rate * f for rate in computed for f in (least, most))
        nearest = min(max(busbw, min(scaled)), max(scaled))
        yield _size_over_time(claim, busbw, (nearest,), "busbw", others)
    if algbw is not None and busbw is not None and not computed:
        nearest = min(max(busbw, algbw * least), algbw * most)
        yield _size_over_time(claim, busbw, (nearest,), "busbw from algbw", others)
    limit = claim.number("line_rate")
    if unnamed is not None:
        yield from _unnamed(claim, unnamed, computed, (least, most), limit)
        return
    bus = (
        busbw
        if busbw is not None
        else algbw * least
        if algbw is not None
        else max(computed, default=0.0) * least
    )
    if limit and bus:
        yield _under_the_line(claim, bus, limit)
    ranks, op, sizes = ranks_of(claim), op_of(claim), _sizes(claim)
    if bus and ranks and op != "send_recv":
        size = sizes[0] if sizes else 0
        yield from against_published(
            claim, f"collective.{op}", bus, Unit.BYTE_PER_SECOND, ranks=ranks, size=size
        )


def _size_over_time(
    claim: Claim,
    stated: float,
    computed: tuple[float, ...],
    name: str,
    others: list[tuple[float, str]],
) -> Finding:
    best = min(computed, key=lambda rate: abs(rate - stated))
    figures = f"{_rate(stated)} of {name} is stated, size over time gives {_rate(best)}"
    if agree(stated, best) or abs(stated - best) <= 1.01 * PRINTED:
        return finding_on(claim, LintVerdict.SOUND, SIZE_OVER_TIME, figures)
    return finding_on(
        claim,
        LintVerdict.WRONG,
        SIZE_OVER_TIME,
        figures,
        cause=cause_of(stated, best, others),
        next_step="check the units of size, time and bandwidth, and whether it is algbw or busbw",
    )


def _unnamed(
    claim: Claim,
    stated: float,
    computed: tuple[float, ...],
    factors: tuple[float, float],
    limit: float | None,
) -> Iterator[Finding]:
    """Yield the finding on a bandwidth that may be algbw or busbw.

    It is sound where one of the two readings agrees with size over time and with the line rate.
    """
    least, most = factors
    as_algbw = not computed or any(agree(stated, rate) for rate in computed)
    as_busbw = not computed or any(
        rate * least * (1 - TOLERANCE) <= stated <= rate * most * (1 + TOLERANCE)
        for rate in computed
    )
    holds_algbw = as_algbw and (not limit or stated * least <= limit * OVER)
    holds_busbw = as_busbw and (not limit or stated <= limit * OVER)
    size_over_time = ", ".join(_rate(rate) for rate in computed)
    bus = f"{_rate(stated * least)}" + (f" to {_rate(stated * most)}" if most > least else "")
    figures = f"{_rate(stated)} is stated"
    if size_over_time:
        figures += f", size over time gives {size_over_time}"
    figures += f"; read as algbw it is a busbw of {bus}"
    if limit:
        figures += f", the line rate is {_rate(limit)}"
    if holds_algbw or holds_busbw:
        yield finding_on(
            claim,
            LintVerdict.SOUND,
            SIZE_OVER_TIME,
            f"{figures}; read as {'algbw' if holds_algbw else 'busbw'} it agrees",
        )
        return
    rule = LINE_RATE if as_algbw or as_busbw else SIZE_OVER_TIME
    near = min(computed, key=lambda rate: abs(rate - stated)) if computed else stated * least
    cause = (
        "read as algbw it agrees with the time, but its busbw is over the line rate"
        if rule == LINE_RATE
        else cause_of(stated, near, [(least, "busbw")])
    )
    yield finding_on(
        claim,
        LintVerdict.WRONG,
        rule,
        figures,
        cause=cause,
        next_step="find out the number of ranks, and whether it is algbw or busbw",
    )


def _under_the_line(claim: Claim, bus: float, limit: float) -> Finding:
    """Return whether busbw stays under the line rate.

    An all-reduce that the switch computes moves less: there algbw stays under the line rate.
    """
    figures = f"busbw {_rate(bus)}, line rate {_rate(limit)}"
    if bus <= limit * OVER:
        return finding_on(claim, LintVerdict.SOUND, LINE_RATE, figures)
    device = device_of(claim)
    is_switched = (
        device is not None and device.arch.startswith("sm_") and op_of(claim) == "all_reduce"
    )
    if is_switched and bus <= limit * OVER * _factors(claim)[1]:
        return finding_on(
            claim,
            LintVerdict.SOUND,
            LINE_RATE,
            f"{figures}: a reduction in the switch (NVLS) can exceed it",
        )
    return finding_on(
        claim,
        LintVerdict.WRONG,
        LINE_RATE,
        figures,
        cause=cause_of(bus, limit),
        next_step="check size, time and factor; only a reduction in the switch (SHARP, NVLS) can "
        "exceed the line rate",
    )


def _rate(value: float) -> str:
    return format_quantity(value, Unit.BYTE_PER_SECOND)
