"""ZAYA1 as numbers: parameters, active parameters, matrix products, other shapes.

It needs only the standard library and allocates nothing.
"""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mi300bench.schema.model import Gemm, ModelDescription, Parameter

from mi300bench_training.zaya1.config import PRESETS, ZayaConfig, ZayaModelConfig


def _attention(model: ZayaModelConfig, at: str) -> list[Parameter]:
    width, query = model.hidden, model.heads * model.head_dim
    key = model.kv_heads * model.head_dim
    channels, groups = query + key, model.heads + model.kv_heads
    return [
        Parameter(name=f"{at}.temperature", shape=(model.kv_heads,)),
        Parameter(name=f"{at}.query.weight", shape=(query, width)),
        Parameter(name=f"{at}.key.weight", shape=(key, width)),
        Parameter(name=f"{at}.value_now.weight", shape=(key // 2, width)),
        Parameter(name=f"{at}.value_before.weight", shape=(key // 2, width)),
        Parameter(name=f"{at}.depthwise.weight", shape=(channels, 1, 2)),
        Parameter(name=f"{at}.depthwise.bias", shape=(channels,)),
        Parameter(name=f"{at}.grouped.weight", shape=(channels, channels // groups, 2)),
        Parameter(name=f"{at}.grouped.bias", shape=(channels,)),
        Parameter(name=f"{at}.output.weight", shape=(width, query)),
    ]


def _router(model: ZayaModelConfig, at: str, *, is_first: bool) -> list[Parameter]:
    inner = model.router_width
    state_scale = [] if is_first else [Parameter(name=f"{at}.state_scale", shape=(inner,))]
    return [
        *state_scale,
        Parameter(name=f"{at}.down.weight", shape=(inner, model.hidden)),
        Parameter(name=f"{at}.down.bias", shape=(inner,)),
        Parameter(name=f"{at}.norm.weight", shape=(inner,)),
        Parameter(name=f"{at}.inner1.weight", shape=(inner, inner)),
        Parameter(name=f"{at}.inner1.bias", shape=(inner,)),
        Parameter(name=f"{at}.inner2.weight", shape=(inner, inner)),
        Parameter(name=f"{at}.inner2.bias", shape=(inner,)),
        Parameter(name=f"{at}.logits.weight", shape=(model.experts + 1, inner)),
    ]


def _join(model: ZayaModelConfig, at: str) -> list[Parameter]:
    names = ("output_scale", "output_bias", "residual_scale", "residual_bias")
    return [Parameter(name=f"{at}.{name}", shape=(model.hidden,)) for name in names]


def parameters(model: ZayaModelConfig) -> tuple[Parameter, ...]:
    """Return every trainable tensor, in the module's order."""
    width = model.hidden
    tensors = [
        Parameter(name="input_scale", shape=(width,)),
        Parameter(name="input_bias", shape=(width,)),
        Parameter(name="embedding.weight", shape=(model.vocab, width)),
    ]
    for index in range(model.blocks):
        at = f"blocks.{index}"
        tensors += [
            Parameter(name=f"{at}.attention_norm.weight", shape=(width,)),
            *_attention(model, f"{at}.attention"),
            *_join(model, f"{at}.attention_join"),
            Parameter(name=f"{at}.expert_norm.weight", shape=(width,)),
            *_router(model, f"{at}.router", is_first=index == 0),
            Parameter(
                name=f"{at}.experts.up", shape=(model.experts, 2 * model.expert_width, width)
            ),
            Parameter(name=f"{at}.experts.down", shape=(model.experts, width, model.expert_width)),
            *_join(model, f"{at}.expert_join"),
        ]
    tensors.append(Parameter(name="final_norm.weight", shape=(width,)))
    return tuple(tensors)


def gemms(model: ZayaModelConfig, tokens: int) -> tuple[Gemm, ...]:
    """Return the matrix products of a forward pass over `tokens` tokens, with balanced experts.

    For each, the backward pass adds a product with N and K swapped and one with M and K swapped.
    """
    width, query, key = model.hidden, model.heads * model.head_dim, model.kv_heads * model.head_dim
    inner, per_expert = model.router_width, max(1, tokens // model.experts)
    blocks, experts = model.blocks, model.blocks * model.experts
    return (
        Gemm(name="query", m=tokens, n=query, k=width, count=blocks),
        Gemm(name="key", m=tokens, n=key, k=width, count=blocks),
        Gemm(name="value", m=tokens, n=key // 2, k=width, count=2 * blocks),
        Gemm(name="attention output", m=tokens, n=width, k=query, count=blocks),
        Gemm(name="router down", m=tokens, n=inner, k=width, count=blocks),
        Gemm(name="router inner", m=tokens, n=inner, k=inner, count=2 * blocks),
        Gemm(name="expert up", m=per_expert, n=2 * model.expert_width, k=width, count=experts),
        Gemm(name="expert down", m=per_expert, n=width, k=model.expert_width, count=experts),
        Gemm(name="head", m=tokens, n=model.vocab, k=width),
    )


def describe(config: ZayaConfig) -> ModelDescription:
    """Return the model of `config` as numbers.

    Active parameters are those of one expert for each token, without the embedding.
    """
    model = config.model
    tensors = parameters(model)
    embedding = model.vocab * model.hidden
    expert = 3 * model.hidden * model.expert_width
    total = sum(tensor.elements for tensor in tensors)
    return ModelDescription(
        name="zaya1",
        preset=config.preset,
        parameters=tensors,
        active_elements=total - embedding - model.blocks * (model.experts - 1) * expert,
        embedding_elements=embedding,
        width=model.hidden,
        flop_per_token=_flop_per_token(
            config, total - embedding - model.blocks * (model.experts - 1) * expert
        ),
        gemms=gemms(model, config.data.seq_len * config.data.micro_batch),
    )


def needed_vocab(config: ZayaConfig) -> int:
    """Return the size of the preset's vocabulary; further rows are padding."""
    return (
        min(config.model.vocab, PRESETS[config.preset].model.vocab)
        if config.preset in PRESETS
        else config.model.vocab
    )


def flop_per_token(config: ZayaConfig) -> float:
    """Return the useful FLOP of a training step for each token."""
    return describe(config).flop_per_token


def _flop_per_token(config: ZayaConfig, active_elements: int) -> float:
    """Return six FLOP for each active weight and each weight of the head, and causal attention."""
    model = config.model
    weights = active_elements + needed_vocab(config) * model.hidden
    attention = 6 * model.blocks * config.data.seq_len * model.heads * model.head_dim
    return 6.0 * weights + attention


# Hidden widths within this share of the default's are weighed, in steps of WIDTH_STEP. The number
# of parameters determines the expert widths.
WIDTH_REACH, WIDTH_STEP, EXPERT_STEP = 0.25, 32, 16
HEAD_DIMS = (32, 64, 96, 128)
VOCAB_MULTIPLES = (64, 128, 256)


def variants(config: ZayaConfig, tolerance: float) -> tuple[dict[str, int], ...]:
    """Return other shapes with about the same parameters, as values by dotted key.

    Active and total parameters stay within the relative `tolerance` of the default's, without the
    embedding. The total counts too: narrow experts in a wide model keep the active parameters but
    lose capacity. Shapes differ in hidden width, expert width, head width at the same query
    channels, and padded vocabulary. Their quality is not known.
    """
    model = config.model
    described = describe(config)
    budget = described.active_elements
    whole = described.total_elements - described.embedding_elements
    channels = model.heads * model.head_dim
    first = max(WIDTH_STEP, round(model.hidden * (1 - WIDTH_REACH) / WIDTH_STEP) * WIDTH_STEP)
    widths = {model.hidden, *range(first, int(model.hidden * (1 + WIDTH_REACH)) + 1, WIDTH_STEP)}
    heads = [(model.heads, model.head_dim)]
    heads += [
        (channels // d, d)
        for d in HEAD_DIMS
        if channels % d == 0 and (channels // d) % model.kv_heads == 0
    ]
    vocabs = {
        model.vocab,
        *(-(-model.vocab // multiple) * multiple for multiple in VOCAB_MULTIPLES),
    }
    by_sizes: dict[tuple[int, int, int, int], dict[str, int]] = {}
    for width, (count, dim) in itertools.product(sorted(widths), dict.fromkeys(heads)):
        experts = _expert_widths(config, width, count, dim, budget)
        for expert, vocab in itertools.product(experts, sorted(vocabs)):
            keys = {
                "model.hidden": width,
                "model.expert_width": expert,
                "model.heads": count,
                "model.head_dim": dim,
                "model.vocab": vocab,
            }
            changed = {
                key: size
                for key, size in keys.items()
                if size != getattr(model, key.removeprefix("model."))
            }
            variant = describe(_with_shape(config, keys))
            active = variant.active_elements
            total = variant.total_elements - variant.embedding_elements
            is_close = abs(active / budget - 1) <= tolerance and abs(total / whole - 1) <= tolerance
            if changed and is_close:
                by_sizes[width, expert, dim, vocab] = changed
    return tuple(by_sizes.values())


def _expert_widths(
    config: ZayaConfig, width: int, heads: int, head_dim: int, budget: int
) -> set[int]:
    """Return the default's expert width, and the multiples of EXPERT_STEP around the budget's."""
    keys = {
        "model.hidden": width,
        "model.heads": heads,
        "model.head_dim": head_dim,
        "model.expert_width": EXPERT_STEP,
    }
    least = describe(_with_shape(config, keys)).active_elements
    exact = EXPERT_STEP + (budget - least) / (3 * width * config.model.blocks)
    below = int(exact // EXPERT_STEP) * EXPERT_STEP
    return {size for size in (config.model.expert_width, below, below + EXPERT_STEP) if size > 0}


def _with_shape(config: ZayaConfig, keys: Mapping[str, int]) -> ZayaConfig:
    """Return `config` with other sizes of the model, given by dotted key."""
    sizes: dict[str, Any] = {key.removeprefix("model."): size for key, size in keys.items()}
    return replace(config, model=replace(config.model, **sizes))
