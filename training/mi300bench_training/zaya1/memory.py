"""The memory of a training step of ZAYA1, from the shapes. It needs no torch and allocates nothing.

Some tensors always exist: float32 parameters, AdamW's two moments, and gradients if DDP keeps them
in its buckets or if micro-batches accumulate. The other tensors have their peak at one of three
moments:

loss      all activations, and three arrays of logits: log-softmax, its gradient, that of the loss
backward  of some block: the activations of the blocks before it, the block's working memory, and
          the gradients of the blocks after it
end       all gradients, and two more of the embedding, from head and lookup, before their sum

The bytes of activations for each token are those that autograd of torch 2.13 keeps for this model,
counted tensor by tensor; a test counts them again. Attention uses the fused kernel, which keeps no
T x T weights.

Letters: N tokens of a micro-batch   D hidden   V vocabulary   Q query channels   K key channels
F expert width   R router width   H query heads   G key-value heads   E experts
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mi300bench.schema.model import MemoryNeed

from mi300bench_training.zaya1 import shapes
from mi300bench_training.zaya1.config import ZayaConfig, ZayaModelConfig

FULL = 4  # bytes of a float32
# Activations outside the blocks (embedding, last norm), and working memory of a block's backward
# pass, in arrays of N x D.
OUTER_ARRAYS, WORKING_ARRAYS = 4, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """Bytes of the parts of one micro-batch.

    block        activations of a block
    block_input  what recomputation keeps of a block
    casts        bfloat16 copies of a block's weights, kept until its backward pass
    working      working memory of a block's backward pass, without its activations
    outer        activations outside the blocks
    logits       one float32 array of the logits that exist at once
    head         the embedding in float32
    """

    block: float
    block_input: float
    casts: float
    working: float
    outer: float
    logits: float
    head: float


def activation_bytes_per_token(
    model: ZayaModelConfig, *, is_bf16: bool, load: float = 1.0
) -> float:
    """Return the bytes that autograd keeps of one block for each token.

    `load` is the number of computed rows over that of routed tokens.
    """
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
    """Yield each moment that can be the peak, with its temporary tensors."""
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
    for index in range(blocks):  # in the backward pass of this block
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
    # If gradients are kept, the embedding's new one is added to the old one. In low precision the
    # head's gradient is small.
    copies = 3 if keeps_gradients else 1 if is_chunked or is_bf16 else 2
    yield "end", {"gradients": new, "gradients of the embedding": copies * sizes.head}


def need(config: ZayaConfig, *, ranks: int, load: float = 1.0) -> MemoryNeed:
    """Return the peak memory on one of `ranks`.

    `load` is the fullest expert's tokens over an even share; it matters for padded experts only.
    """
    parameters = float(sum(p.elements for p in shapes.parameters(config.model)) * FULL)
    always = {"parameters": parameters, "optimizer": 2 * parameters}
    keeps_gradients = ranks > 1 or config.data.accumulate > 1
    if keeps_gradients:
        # The first micro-batches are not reduced, so their gradients exist outside the buckets too.
        always["kept gradients"] = parameters * (
            2 if ranks > 1 and config.data.accumulate > 1 else 1
        )
    moments = _moments(config, _sizes(config, load), keeps_gradients=keeps_gradients)
    moment, parts = max(moments, key=lambda each: sum(each[1].values()))
    whole = always | parts
    return MemoryNeed(peak_bytes=sum(whole.values()), moment=moment, parts=whole)
