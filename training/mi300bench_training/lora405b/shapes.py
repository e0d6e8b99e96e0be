"""Llama 3.1 with adapters as numbers. It needs only the standard library and allocates nothing.

The communication of a device in a step has a closed form, for rings and 2-byte elements:

fsdp         each pass over the layers gathers (fsdp-1)/fsdp of the weights. Forward and backward
             are two passes; recomputing layers adds none, because backward gathers the weights
             anyway
mp           activations are all-reduced after attention and after the feed-forward part, in forward
             and backward: four times for each layer. Recomputing layers adds only a fifth time,
             because it does not need the last all-reduce of a layer. Each moves 2(mp-1)/mp of its
             bytes
dp and fsdp  the adapters' gradients are all-reduced once, for the parts of A and B that mp leaves
"""

from mi300bench.schema.model import Gemm, MeshTraffic, ModelDescription, Parameter

from mi300bench_training.lora405b.config import LlamaConfig, LoraConfig, LoraRunConfig

# mp splits the input of these layers, and A with it. Of other layers it splits the output and B.
SPLIT_INPUTS = ("o_proj", "down_proj")


def linears(model: LlamaConfig) -> dict[str, tuple[int, int]]:
    """Return (in, out) of each linear layer of a block, by PEFT's names."""
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    return {
        "q_proj": (model.hidden, query),
        "k_proj": (model.hidden, key),
        "v_proj": (model.hidden, key),
        "o_proj": (query, model.hidden),
        "gate_proj": (model.hidden, model.ffn),
        "up_proj": (model.hidden, model.ffn),
        "down_proj": (model.ffn, model.hidden),
    }


def parameters(model: LlamaConfig) -> tuple[Parameter, ...]:
    """Return every frozen tensor, with layers stacked along the first axis."""
    norms = [
        Parameter(name=f"layers.{name}", shape=(model.layers, model.hidden))
        for name in ("attention_norm", "mlp_norm")
    ]
    return (
        Parameter(name="embed", shape=(model.vocab, model.hidden)),
        *(
            Parameter(name=f"layers.{name}", shape=(model.layers, *shape))
            for name, shape in linears(model).items()
        ),
        *norms,
        Parameter(name="norm", shape=(model.hidden,)),
        Parameter(name="lm_head", shape=(model.hidden, model.vocab)),
    )


def adapters(model: LlamaConfig, lora: LoraConfig) -> tuple[Parameter, ...]:
    """Return every adapter tensor: A [in, rank] and B [rank, out], stacked over layers."""
    tensors = []
    for name in lora.targets:
        inside, outside = (model.hidden, model.vocab) if name == "lm_head" else linears(model)[name]
        stack = () if name == "lm_head" else (model.layers,)
        prefix = "" if name == "lm_head" else "layers."
        tensors.append(Parameter(name=f"{prefix}{name}.a", shape=(*stack, inside, lora.rank)))
        tensors.append(Parameter(name=f"{prefix}{name}.b", shape=(*stack, lora.rank, outside)))
    return tuple(tensors)


def count(tensors: tuple[Parameter, ...]) -> int:
    """Return the number of elements of all tensors."""
    return sum(tensor.elements for tensor in tensors)


def matmul_elements(model: LlamaConfig) -> int:
    """Return the number of weights in products: layers and head, without norms and embedding."""
    return (
        model.layers * sum(inside * outside for inside, outside in linears(model).values())
        + model.hidden * model.vocab
    )


def gemms(model: LlamaConfig, tokens: int) -> tuple[Gemm, ...]:
    """Return the products of a forward pass over `tokens` tokens.

    The backward pass adds only those of the input gradients.
    """
    inner = tuple(
        Gemm(name=name, m=tokens, n=outside, k=inside, count=model.layers)
        for name, (inside, outside) in linears(model).items()
    )
    return (*inner, Gemm(name="lm_head", m=tokens, n=model.vocab, k=model.hidden))


def describe(config: LoraRunConfig) -> ModelDescription:
    """Return the model of `config` as numbers; the trainable tensors are the adapters."""
    model = config.model
    return ModelDescription(
        name="lora405b",
        preset=config.preset,
        parameters=adapters(model, config.lora),
        active_elements=count(parameters(model)),
        embedding_elements=model.vocab * model.hidden,
        width=model.hidden,
        flop_per_token=flop_per_token(config),
        gemms=gemms(model, config.data.batch * config.data.seq_len // config.data.accumulate),
    )


def mesh_gemms(config: LoraRunConfig) -> tuple[Gemm, ...]:
    """Return the forward products of one device in a step on the config's mesh."""
    mesh, products = config.mesh, []
    tokens = (
        config.data.batch * config.data.seq_len // config.data.accumulate // (mesh.dp * mesh.fsdp)
    )
    for gemm in gemms(config.model, tokens):
        n, k = (
            (gemm.n, gemm.k // mesh.mp)
            if gemm.name in SPLIT_INPUTS
            else (gemm.n // mesh.mp, gemm.k)
        )
        products.append(
            Gemm(name=gemm.name, m=tokens, n=n, k=k, count=gemm.count * config.data.accumulate)
        )
    return tuple(products)


def divides(config: LoraRunConfig) -> bool:
    """Return whether the mesh divides every tensor by the sharding rules, with whole heads."""
    mesh, model = config.mesh, config.model
    both = mesh.fsdp * mesh.mp
    sizes = [(model.hidden, model.vocab), *linears(model).values()]
    return model.kv_heads % mesh.mp == 0 and all(
        size % both == 0 for pair in sizes for size in pair
    )


def held_bytes(config: LoraRunConfig, element_bytes: int = 2) -> float:
    """Return a lower bound of the bytes of a device.

    These are its weights, its float32 adapters with two moments, and what remat keeps of each
    layer. ``full`` keeps a layer's input; ``dots`` also queries, keys, values, two states, gate and
    up; ``none`` keeps at least those.
    """
    mesh, model = config.mesh, config.model
    frozen = count(parameters(model)) * element_bytes / (mesh.fsdp * mesh.mp)
    kept = float(model.hidden)
    if config.compute.remat != "full":
        inner = 2 * (model.heads + model.kv_heads) * model.head_dim + 2 * model.ffn
        kept += model.hidden + inner / mesh.mp
    tokens = (
        config.data.batch * config.data.seq_len / config.data.accumulate / (mesh.dp * mesh.fsdp)
    )
    return (
        frozen
        + 12.0 * sum(_adapter_parts(config, also_fsdp=True))
        + element_bytes * model.layers * tokens * kept
    )


def flop_per_token(config: LoraRunConfig) -> float:
    """Return the useful FLOP of a step for each token.

    A frozen weight has 2 in forward and 2 for the input gradient, an adapter's weight has 6, and
    causal attention has 6 for each pair.
    """
    model = config.model
    attention = 6 * model.layers * config.data.seq_len * model.heads * model.head_dim
    return 4.0 * matmul_elements(model) + 6.0 * count(adapters(model, config.lora)) + attention


def traffic(config: LoraRunConfig, element_bytes: int) -> MeshTraffic:
    """Return the communication of a step on the config's mesh."""
    model, data = config.model, config.data
    return MeshTraffic(
        layers=model.layers,
        weight_bytes=float(element_bytes * sum(a * b for a, b in linears(model).values())),
        token_bytes=float(element_bytes * model.hidden),
        tokens=data.batch * data.seq_len,
        all_reduces=all_reduces(config),
        parts=data.accumulate,
        gradient_bytes=gradient_message_bytes(config, element_bytes),
    )


def all_reduces(config: LoraRunConfig) -> int:
    """Return the number of all-reduces of a layer's activations over mp in a step."""
    return 5 if config.compute.remat == "full" else 4


def gathered_bytes(config: LoraRunConfig, element_bytes: int = 2) -> float:
    """Return the bytes of weights that a device receives in a step.

    Each part of the batch has two passes, which gather (fsdp - 1) / fsdp of what mp leaves.
    """
    mesh = config.mesh
    return (
        2
        * config.data.accumulate
        * (mesh.fsdp - 1)
        / mesh.fsdp
        * count(parameters(config.model))
        * element_bytes
        / mesh.mp
    )


def reduced_bytes(config: LoraRunConfig, element_bytes: int = 2) -> float:
    """Return the bytes of activations that a device sends over mp in a step."""
    mesh, model = config.mesh, config.model
    tokens = config.data.batch * config.data.seq_len / (mesh.dp * mesh.fsdp)
    each = 2 * (mesh.mp - 1) / mesh.mp * tokens * model.hidden * element_bytes
    return all_reduces(config) * model.layers * each


def gradient_message_bytes(config: LoraRunConfig, element_bytes: int = 2) -> float:
    """Return the bytes of a device's gradients in an all-reduce over dp x fsdp.

    There is one all-reduce for each part of the batch.
    """
    return sum(_adapter_parts(config)) * element_bytes


def gradient_bytes(config: LoraRunConfig, element_bytes: int = 2) -> float:
    """Return the bytes of adapters' gradients that a device receives in a step."""
    groups = config.mesh.dp * config.mesh.fsdp
    return (
        2
        * config.data.accumulate
        * (groups - 1)
        / groups
        * gradient_message_bytes(config, element_bytes)
    )


def _adapter_parts(config: LoraRunConfig, *, also_fsdp: bool = False) -> list[float]:
    """Return the elements of each A and B on a device, split by mp and, if asked, by fsdp."""
    mesh, parts = config.mesh, []
    for tensor in adapters(config.model, config.lora):
        target, part = tensor.name.split(".")[-2:]
        is_split = (target in SPLIT_INPUTS) == (part == "a")
        parts.append(
            tensor.elements / (mesh.mp if is_split else 1) / (mesh.fsdp if also_fsdp else 1)
        )
    return parts
