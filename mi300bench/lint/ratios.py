"""Stated ratios, savings and averages against the figures that they come from.

Also figures against published ones, and shapes against a model. The figures of each kind of claim:

ratio          stated, numerator, denominator
saving         stated, before, after, foreign (the part of the saving that is not the method's)
average        stated, values
bits           stated (the saving), before, after, block, scale_bits
published      stated, published, note
product_shape  product (N, K), dims of the model
least_k        stated (the least K), dims
buffer         at (the bandwidth of the buffer), best, bytes, ranks
full_mesh      ranks (a list), of, stated (the loss)
"""

from collections.abc import Iterator

from mi300bench.lint.check import TOLERANCE, agree, compared, finding_on
from mi300bench.lint.claim import Claim
from mi300bench.lint.finding import Finding, LintVerdict
from mi300bench.units import format_bytes

# A percentage that is rounded to a whole number is off by at most this.
ROUNDED = 0.006
# A buffer is too small if the link reaches less than this share of its best bandwidth.
WORTH = 0.8
# The time of a smaller message than this in a step of a ring is mostly latency.
LEAST_STEP = 64 * 1024


def _missing(claim: Claim, rule: str) -> Finding:
    return finding_on(
        claim, LintVerdict.NOT_JUDGED, rule, "the claim does not state the figures it comes from"
    )


def ratio(claim: Claim) -> Iterator[Finding]:
    """Yield whether a stated ratio is that of its two figures."""
    stated, above, below = (claim.number(name) for name in ("stated", "numerator", "denominator"))
    rule = "a ratio is that of its figures"
    if not (stated and above and below):
        yield _missing(claim, rule)
        return
    yield compared(
        claim,
        rule,
        stated=stated,
        expected=above / below,
        figures=f"{stated:g} is stated, {above:g} / {below:g} is {above / below:.3g}",
        next_step="check that both figures are of the same run and of the same thing",
    )


def saving(claim: Claim) -> Iterator[Finding]:
    """Yield whether a saving follows from before and after, and how much is not the method's."""
    stated, before, after = (claim.number(name) for name in ("stated", "before", "after"))
    rule = "a saving is (before - after) / before"
    if not (stated and before and after):
        yield _missing(claim, rule)
        return
    expected = 1 - after / before
    # Of a large saving the remainder is compared: 99 % leaves a fifth of what 95 % leaves.
    remains = abs(stated - expected) <= ROUNDED or agree(1 - stated, after / before)
    yield compared(
        claim,
        rule,
        stated=stated,
        expected=expected,
        figures=f"{stated:.0%} is stated, {before:g} to {after:g} is {expected:.1%}",
        next_step="state what is saved: activations, gradients, or all memory",
        tolerance=TOLERANCE if remains else 0.0,
    )
    if foreign := claim.number("foreign"):
        part = foreign / (before - after)
        yield finding_on(
            claim,
            LintVerdict.DOUBTFUL,
            "a saving is the method's own",
            f"{foreign:g} of {before - after:g} saved ({part:.0%}) come from "
            f"{claim.text('foreign_from') or 'another method'}",
            cause="one figure combines two methods",
            next_step="state what each method saves by itself (an ablation)",
        )


def average(claim: Claim) -> Iterator[Finding]:
    """Yield whether a stated average is that of its values."""
    stated, values = claim.number("stated"), claim.numbers("values")
    rule = "an average is that of its values"
    if not stated or not values:
        yield _missing(claim, rule)
        return
    mean = sum(values) / len(values)
    listed = ", ".join(f"{v:g}" for v in values)
    yield compared(
        claim,
        rule,
        stated=stated,
        expected=mean,
        figures=f"{stated:g} is stated, the mean of {listed} is {mean:g}",
        next_step="state over what the average is: stages or elements",
    )


def bits(claim: Claim) -> Iterator[Finding]:
    """Yield whether a saving follows from the widths of the types, with their scales."""
    stated, before, after = (claim.number(name) for name in ("stated", "before", "after"))
    rule = "bits saved are those of the types, with their scales"
    if not (stated and before and after):
        yield _missing(claim, rule)
        return
    scale = (claim.number("scale_bits") or 0.0) / (claim.number("block") or 1.0)
    expected = 1 - (after + scale) / before
    yield compared(
        claim,
        rule,
        stated=stated,
        expected=expected,
        figures=f"{stated:.0%} is stated; {before:g} to {after:g} bits with {scale:.3g} bits of "
        f"scale each is {expected:.1%}",
        next_step="state the type that it is compared with",
    )


def published(claim: Claim) -> Iterator[Finding]:
    """Yield whether a figure is the one that its source published or that the model has."""
    stated, known = claim.number("stated"), claim.number("published")
    rule = "a figure is the published one"
    if stated is None or known is None:
        yield _missing(claim, rule)
        return
    yield compared(
        claim,
        rule,
        stated=stated,
        expected=known,
        tolerance=claim.number("tolerance") or 0.05,
        cause="the source has another figure",
        figures=f"{stated:,g} is stated, {known:,g} {claim.text('note') or 'is published'}",
        next_step="check the figure in its source",
    )


def product_shape(claim: Claim) -> Iterator[Finding]:
    """Yield whether a product exists in a model of these dimensions."""
    product, dims = claim.numbers("product"), set(claim.numbers("dims"))
    rule = "a model's products have its own dimensions"
    if not product or not dims:
        yield _missing(claim, rule)
        return
    foreign = [f"{d:g}" for d in product if d not in dims]
    shape, of_model = (
        " x ".join(map("{:g}".format, product)),
        ", ".join(map("{:g}".format, sorted(dims))),
    )
    figures = f"the product is {shape}; the model has {of_model}"
    yield finding_on(
        claim,
        LintVerdict.WRONG if foreign else LintVerdict.SOUND,
        rule,
        figures,
        cause=f"the model has no dimension {', '.join(foreign)}: it is another model's product",
        next_step="measure the model's own products: mi300bench gemm-sweep --model zaya1",
    )


def least_k(claim: Claim) -> Iterator[Finding]:
    """Yield whether a rule for K allows any product of the model that it is stated for."""
    stated, dims = claim.number("stated"), claim.numbers("dims")
    rule = "a rule of thumb leaves the products it is for"
    if not stated or not dims:
        yield _missing(claim, rule)
        return
    kept = [d for d in dims if d >= stated]
    figures = f"K of at least {stated:g}; the model has {', '.join(f'{d:g}' for d in dims)}"
    yield finding_on(
        claim,
        LintVerdict.SOUND if kept else LintVerdict.WRONG,
        rule,
        figures,
        cause="the rule excludes every product of that model",
        next_step="measure a rule for the device: mi300bench gemm-sweep --budget 2m",
    )


def buffer(claim: Claim) -> Iterator[Finding]:
    """Yield whether a buffer reaches most of the bandwidth and sends enough in a ring's step."""
    at, best, size, ranks = (claim.number(name) for name in ("at", "best", "bytes", "ranks"))
    rule = "a buffer for bandwidth reaches most of it"
    if not at or not best:
        yield _missing(claim, rule)
        return
    figures = f"the buffer reaches {at / best:.0%} of the best bandwidth of the same table"
    step = size / ranks if size and ranks else None
    if step:
        figures += f"; in a ring of {ranks:g} ranks each step sends {format_bytes(step)}"
    is_small = at / best < WORTH or (step is not None and step < LEAST_STEP)
    yield finding_on(
        claim,
        LintVerdict.WRONG if is_small else LintVerdict.SOUND,
        rule,
        figures,
        cause="the size is below the knee, or the table is of fewer ranks than will be used",
        next_step="take the size from a curve of as many ranks: mi300bench autotune",
    )


def full_mesh(claim: Claim) -> Iterator[Finding]:
    """Yield whether a stated loss is that of groups smaller than a full mesh of links."""
    groups, devices, stated = claim.numbers("ranks"), claim.number("of"), claim.number("stated")
    rule = "n of N devices in a full mesh use (n - 1) / (N - 1) of the links"
    if not groups or not devices or stated is None:
        yield _missing(claim, rule)
        return
    drops = {n: 1 - (n - 1) / (devices - 1) for n in groups}
    listed = ", ".join(f"{n:g} devices lose {drop:.0%}" for n, drop in drops.items())
    every = all(agree(stated, drop, 0.1) for drop in drops.values())
    yield finding_on(
        claim,
        LintVerdict.SOUND if every else LintVerdict.DOUBTFUL,
        rule,
        f"a loss of {stated:.0%} is stated; {listed}",
        cause="the loss of one group size is stated for all",
        next_step="state the number of devices",
    )
