"""Stated ratios, savings and averages against the figures they come from; figures against published ones; shapes against a model.

ratio: stated, numerator, denominator                 saving: stated, before, after, foreign (of the saving, not the method's)
average: stated, values                               bits: stated (saving), before, after, block, scale_bits
published: stated, published, note                    product_shape: product (N, K), dims of the model
least_k: stated (the least K), dims                   buffer: at (bandwidth there), best, bytes, ranks
full_mesh: ranks (list), of, stated (drop)
"""

from collections.abc import Iterator

from mi300bench.lint.check import TOLERANCE, agree, compared, found
from mi300bench.schema.claim import Claim
from mi300bench.schema.finding import Finding, LintVerdict
from mi300bench.units import format_bytes

# What is rounded to whole per cents.
ROUNDED = 0.006
# A buffer at which a link reaches less than this share of its best is small for bandwidth.
WORTH = 0.8
# A message a rank of a ring step under this is latency.
LEAST_STEP = 64 * 1024


def _missing(claim: Claim, rule: str) -> Finding:
    return found(claim, LintVerdict.NOT_JUDGED, rule, "the figures it comes from are not stated")


def ratio(claim: Claim) -> Iterator[Finding]:
    """Yield whether a ratio is that of its two figures."""
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
        next_step="which figure is of something else?",
    )


def saving(claim: Claim) -> Iterator[Finding]:
    """Yield whether a saving is that of before and after, and how much of it is not the method's."""
    stated, before, after = (claim.number(name) for name in ("stated", "before", "after"))
    rule = "a saving is (before - after) / before"
    if not (stated and before and after):
        yield _missing(claim, rule)
        return
    expected = 1 - after / before
    # Of a large saving it is what remains that tells: 99 % and 95 % differ by 5 times.
    remains = abs(stated - expected) <= ROUNDED or agree(1 - stated, after / before)
    yield compared(
        claim,
        rule,
        stated=stated,
        expected=expected,
        figures=f"{stated:.0%} is stated, {before:g} to {after:g} is {expected:.1%}",
        next_step="say of what: activations, gradients, or everything",
        tolerance=TOLERANCE if remains else 0.0,
    )
    if foreign := claim.number("foreign"):
        part = foreign / (before - after)
        yield found(
            claim,
            LintVerdict.DOUBTFUL,
            "a saving is the method's own",
            f"{foreign:g} of {before - after:g} saved ({part:.0%}) come from {claim.text('foreign_from') or 'something else'}",
            cause="two methods in one figure",
            next_step="state the ablation",
        )


def average(claim: Claim) -> Iterator[Finding]:
    """Yield whether an average is that of its values."""
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
        next_step="say over what: stages, elements, or the largest",
    )


def bits(claim: Claim) -> Iterator[Finding]:
    """Yield whether a saving follows from the widths, scales included."""
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
        figures=f"{stated:.0%} is stated; {before:g} to {after:g} bits with {scale:.3g} bits of scale each is {expected:.1%}",
        next_step="say against which type it is",
    )


def published(claim: Claim) -> Iterator[Finding]:
    """Yield whether a figure is the one that its own source published, or that follows from the model."""
    stated, told = claim.number("stated"), claim.number("published")
    rule = "a figure is the published one"
    if stated is None or told is None:
        yield _missing(claim, rule)
        return
    yield compared(
        claim,
        rule,
        stated=stated,
        expected=told,
        tolerance=claim.number("tolerance") or 0.05,
        cause="not what its source says",
        figures=f"{stated:,g} is stated, {told:,g} {claim.text('note') or 'is published'}",
        next_step="read the source",
    )


def product_shape(claim: Claim) -> Iterator[Finding]:
    """Yield whether a product exists in a model of these dimensions."""
    product, dims = claim.numbers("product"), set(claim.numbers("dims"))
    rule = "a model's products have its own dimensions"
    if not product or not dims:
        yield _missing(claim, rule)
        return
    foreign = [f"{d:g}" for d in product if d not in dims]
    figures = f"{' x '.join(f'{d:g}' for d in product)}; the model has {', '.join(f'{d:g}' for d in sorted(dims))}"
    yield found(
        claim,
        LintVerdict.WRONG if foreign else LintVerdict.SOUND,
        rule,
        figures,
        cause=f"{', '.join(foreign)} is none of them: another model's products",
        next_step="mi300bench gemm-sweep --model zaya1",
    )


def least_k(claim: Claim) -> Iterator[Finding]:
    """Yield whether a rule for K leaves any product of the model it is stated for."""
    stated, dims = claim.number("stated"), claim.numbers("dims")
    rule = "a rule of thumb leaves the products it is for"
    if not stated or not dims:
        yield _missing(claim, rule)
        return
    kept = [d for d in dims if d >= stated]
    figures = f"K of at least {stated:g}; the model's are {', '.join(f'{d:g}' for d in dims)}"
    yield found(
        claim,
        LintVerdict.SOUND if kept else LintVerdict.WRONG,
        rule,
        figures,
        cause="it rejects every product of that model",
        next_step="mi300bench gemm-sweep --budget",
    )


def buffer(claim: Claim) -> Iterator[Finding]:
    """Yield what share of the best bandwidth a buffer reaches, and how much a rank of a ring sends at once."""
    at, best, size, ranks = (claim.number(name) for name in ("at", "best", "bytes", "ranks"))
    rule = "a buffer for bandwidth reaches most of it"
    if not at or not best:
        yield _missing(claim, rule)
        return
    figures = f"{at / best:.0%} of the best bandwidth of the same table"
    step = size / ranks if size and ranks else None
    if step:
        figures += f"; among {ranks:g} ranks a ring's step is {format_bytes(step)}"
    is_small = at / best < WORTH or (step is not None and step < LEAST_STEP)
    yield found(
        claim,
        LintVerdict.WRONG if is_small else LintVerdict.SOUND,
        rule,
        figures,
        cause="a size below the knee, or a table of few ranks used for many",
        next_step="take the size from a curve at the rank count it is used at: mi300bench autotune",
    )


def full_mesh(claim: Claim) -> Iterator[Finding]:
    """Yield what groups smaller than a full mesh of links reach: (n - 1) / (N - 1) of all."""
    groups, whole, stated = claim.numbers("ranks"), claim.number("of"), claim.number("stated")
    rule = "n of N devices in a full mesh use (n - 1) / (N - 1) of the links"
    if not groups or not whole or stated is None:
        yield _missing(claim, rule)
        return
    drops = {n: 1 - (n - 1) / (whole - 1) for n in groups}
    listed = ", ".join(f"{n:g} devices lose {drop:.0%}" for n, drop in drops.items())
    every = all(agree(stated, drop, 0.1) for drop in drops.values())
    yield found(
        claim,
        LintVerdict.SOUND if every else LintVerdict.DOUBTFUL,
        rule,
        f"a loss of {stated:.0%} is stated; {listed}",
        cause="one group size's loss as a rule for all",
        next_step="say for how many devices",
    )
