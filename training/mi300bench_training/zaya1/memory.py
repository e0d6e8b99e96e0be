"""What a training step of ZAYA1 holds in memory, from the shapes alone. Standard library only; allocates nothing.

Always there: float32 parameters, AdamW's two moments, and gradients where DDP keeps them in its buckets or where
micro-batches add up. What comes and goes peaks at one of three moments:

loss      all activations are there, and three arrays of logits: log-softmax, its gradient, the gradient of the loss
backward  of some block: activations of the blocks before it, what the block itself works with, gradients of those after
end       all gradients, and the embedding's twice more: from the head and from the lookup, before they are one

The bytes of activations a token are what autograd of torch 2.13 keeps for this model's code, counted tensor by tensor
(a test counts them again). Attention is the fused kernel, which keeps no T x T weights.

Letters: N tokens of a micro-batch   D hidden   V vocabulary   Q query channels   K key channels   F expert width
R router width   H query heads   G key-value heads   E experts
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mi300bench.schema.model import MemoryNeed

from mi300bench_training.zaya1 import shapes
from mi300bench_training.zaya1.config import ZayaModelConfig, ZayaConfig

FULL = 4  # bytes of a float32
# Activations outside the blocks (embedding, last norm), and what a block's backward works with, in arrays of N x D.
OUTER_ARRAYS, WORKING_ARRAYS = 4, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """Bytes of the parts of one micro-batch."""

    block: float  # activations of a block
    block_input: float  # what recomputation keeps of it
    casts: float  # bfloat16 copies of a block's weights, kept until its backward pass
    working: float  # what a block's backward pass works with beside its activations
    outer: float
    logits: float  # one float32 array of them, of as many tokens as exist at once
    head: float  # the embedding, as float32


def activation_bytes_per_token(
    model: ZayaModelConfig, *, is_bf16: bool, load: float = 1.0
) -> float:
    """Return what autograd keeps of one block for each token; `load` is the rows computed over the tokens routed."""
    d, f, r, e = model.hidden, model.expert_width, model.router_width, model.experts
    h, g = model.heads, model.kv_heads
    q, k = h * model.head_dim, g * model.head_dim
    in_float32 = 28 * r + 4 * (e + 1) + 16 * h + 12 * g + 42
    if is_bf16:
        return 42 * d + 12 * q + 16 * k + (8 * f + 2 * d) * load + in_float32
    return 48 * d + 20 * q + 24 * k + (16 * f + 4 * d) * load + in_float32


def _sizes(config: ZayaConfig, load: float) -> _Sizes:
    model, is_bf16 = config.model, config.precision == "bfloat16"
    tokens = config.data.micro_batch * config.data.seq_len
    rows = load if config.compute.experts == "padded" else 1.0
    chunk = config.compute.loss_chunk
    array = tokens * model.hidden * FULL
    expert_rows = (
        tokens * (2 * model.expert_width + model.hidden) * (2 if is_bf16 else FULL) * (rows - 1)
    )
    return _Sizes(
        block=activation_bytes_per_token(model, is_bf16=is_bf16, load=rows) * tokens,
        block_input=tokens * (model.hidden + model.router_width) * FULL,
        casts=_block_elements(model) * 2 if is_bf16 else 0.0,
        working=WORKING_ARRAYS * array + expert_rows,
        outer=OUTER_ARRAYS * array,
        logits=(min(chunk, tokens) if chunk else tokens) * model.vocab * FULL,
        head=model.vocab * model.hidden * FULL,
    )


def _block_elements(model: ZayaModelConfig) -> float:
    inside = sum(p.elements for p in shapes.parameters(model) if p.name.startswith("blocks."))
    return inside / model.blocks


def _moments(
    config: ZayaConfig, sizes: _Sizes, *, keeps_gradients: bool
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each moment that can be the peak, with what comes and goes."""
    model, is_recomputed = config.model, config.compute.recompute == "block"
    is_bf16 = config.precision == "bfloat16"
    tokens = config.data.micro_batch * config.data.seq_len
    is_chunked = 0 < config.compute.loss_chunk < tokens
    head_copy = sizes.head / 2 if is_bf16 else 0.0
    head_gradient = sizes.head / (2 if is_bf16 else 1)
    kept = sizes.block_input if is_recomputed else sizes.block + sizes.casts
    block_gradient = _block_elements(model) * FULL
    blocks = model.blocks
    in_loss = (
        (2.5 if is_bf16 else 2) * sizes.logits + head_gradient if is_chunked else 3 * sizes.logits
    )
    yield (
        "loss",
        {
            "activations": blocks * kept + sizes.outer + head_copy,
            "logits and their gradients": in_loss,
        },
    )
    for index in range(blocks):  # the backward pass of this block
        current = sizes.block + sizes.casts if is_recomputed else 0.0
        done = 0.0 if keeps_gradients else (blocks - 1 - index) * block_gradient
        yield (
            "backward",
            {
                "activations": (index + 1) * kept + current + sizes.working,
                "gradients": done,
                "gradient of the head": head_gradient + head_copy,
            },
        )
    new = 0.0 if keeps_gradients else blocks * block_gradient + sizes.head
    # Where gradients are kept, the embedding's new one is added to another; a low-precision head's is small.
    copies = 3 if keeps_gradients else 1 if is_chunked or is_bf16 else 2
    yield "end", {"gradients": new, "gradients of the embedding": copies * sizes.head}


def need(config: ZayaConfig, *, ranks: int, load: float = 1.0) -> MemoryNeed:
    """Return the peak on one of `ranks`; `load` is the fullest expert's tokens over an even share, for padded experts."""
    parameters = float(sum(p.elements for p in shapes.parameters(config.model)) * FULL)
    always = {"parameters": parameters, "optimizer": 2 * parameters}
    keeps_gradients = ranks > 1 or config.data.accumulate > 1
    if keeps_gradients:
        # Without reduction the first micro-batches' gradients lie outside DDP's buckets, which exist all the same.
        always["kept gradients"] = parameters * (
            2 if ranks > 1 and config.data.accumulate > 1 else 1
        )
    moments = _moments(config, _sizes(config, load), keeps_gradients=keeps_gradients)
    moment, parts = max(moments, key=lambda each: sum(each[1].values()))
    whole = always | parts
    return MemoryNeed(peak_bytes=sum(whole.values()), moment=moment, parts=whole)
