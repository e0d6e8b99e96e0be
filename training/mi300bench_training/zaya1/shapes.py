"""ZAYA1 as numbers: parameters, active parameters, matrix products. Standard library only; allocates nothing."""

from mi300bench.schema.model import Gemm, ModelDescription, Parameter

from mi300bench_training.zaya1.config import ModelConfig, TrainConfig


def _attention(model: ModelConfig, at: str) -> list[Parameter]:
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


def _router(model: ModelConfig, at: str, *, is_first: bool) -> list[Parameter]:
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


def _join(model: ModelConfig, at: str) -> list[Parameter]:
    names = ("output_scale", "output_bias", "residual_scale", "residual_bias")
    return [Parameter(name=f"{at}.{name}", shape=(model.hidden,)) for name in names]


def parameters(model: ModelConfig) -> tuple[Parameter, ...]:
    """Return every trainable tensor in the order in which the module holds them."""
    width = model.hidden
    found = [
        Parameter(name="input_scale", shape=(width,)),
        Parameter(name="input_bias", shape=(width,)),
        Parameter(name="embedding.weight", shape=(model.vocab, width)),
    ]
    for index in range(model.blocks):
        at = f"blocks.{index}"
        found += [
            Parameter(name=f"{at}.attention_norm.weight", shape=(width,)),
            *_attention(model, f"{at}.attention"),
            *_join(model, f"{at}.attention_join"),
            Parameter(name=f"{at}.expert_norm.weight", shape=(width,)),
            *_router(model, f"{at}.router", is_first=index == 0),
            Parameter(name=f"{at}.experts.up", shape=(model.experts, 2 * model.expert_width, width)),
            Parameter(name=f"{at}.experts.down", shape=(model.experts, width, model.expert_width)),
            *_join(model, f"{at}.expert_join"),
        ]
    found.append(Parameter(name="final_norm.weight", shape=(width,)))
    return tuple(found)


def gemms(model: ModelConfig, tokens: int) -> tuple[Gemm, ...]:
    """Return the matrix products of one forward pass over `tokens` tokens, experts at an even load.

    The backward pass adds, for each, one product with N and K exchanged and one with M and K exchanged.
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


def describe(config: TrainConfig) -> ModelDescription:
    """Return the model of `config` as numbers. Active: one expert a token, without the embedding."""
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
        gemms=gemms(model, config.data.seq_len * config.data.micro_batch),
    )


def flop_per_token(config: TrainConfig) -> float:
    """Return the FLOP of one training step per token: six per active weight and head, plus causal attention."""
    model = config.model
    weights = describe(config).active_elements + model.vocab * model.hidden
    attention = 6 * model.blocks * config.data.seq_len * model.heads * model.head_dim
    return 6.0 * weights + attention
