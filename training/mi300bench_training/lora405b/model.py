"""Llama 3.1 with frozen weights and adapters.

It has grouped-query attention with scaled rotary positions, SwiGLU and RMSNorm.

Layers are stacked along the first axis of every tensor and run under `lax.scan`, so one layer is
compiled, whatever their number. Norms, softmax and loss are float32. A low-rank product is computed
as (x A) B; the matrix A B never exists.

Shape letters: B batch   T tokens   D hidden   V vocabulary   L layers   G key-value heads
g queries of each   C head width
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.ad_checkpoint import checkpoint_name

from mi300bench_training.lora405b import shapes
from mi300bench_training.lora405b.attention import KEPT, attention
from mi300bench_training.lora405b.config import LlamaConfig, LoraRunConfig
from mi300bench_training.lora405b.sharding import Placing

Tree = dict[str, Any]
INIT_STD = 0.02
POLICIES: dict[str, Any] = {
    "dots": jax.checkpoint_policies.save_only_these_names(KEPT),
    "full": jax.checkpoint_policies.nothing_saveable,
}


def empty(config: LoraRunConfig) -> Tree:
    """Return the shapes and types of the frozen weights, without their values."""
    kind = jnp.dtype(config.precision)
    tree: Tree = {"layers": {}}
    for parameter in shapes.parameters(config.model):
        holder = tree["layers"] if parameter.name.startswith("layers.") else tree
        holder[parameter.name.removeprefix("layers.")] = jax.ShapeDtypeStruct(parameter.shape, kind)
    return tree


def draw(config: LoraRunConfig, key: Array) -> Tree:
    """Return random weights from normal(0, 0.02), with norms of 1."""

    def one(path: Any, leaf: jax.ShapeDtypeStruct, mine: Array) -> Array:
        if "norm" in path[-1].key:
            return jnp.ones(leaf.shape, leaf.dtype)
        return (INIT_STD * jax.random.normal(mine, leaf.shape, jnp.float32)).astype(leaf.dtype)

    leaves, tree = jax.tree_util.tree_flatten_with_path(empty(config))
    keys = jax.random.split(key, len(leaves))
    drawn: Tree = tree.unflatten(
        [one(path, leaf, mine) for (path, leaf), mine in zip(leaves, keys, strict=True)]
    )
    return drawn


def frequencies(model: LlamaConfig) -> list[float]:
    """Return the rotary frequencies, scaled like Hugging Face's rope type `llama3`."""
    frequencies = []
    for index in range(0, model.head_dim, 2):
        frequency = model.rope_theta ** (-index / model.head_dim)
        turns = model.rope_original_length * frequency / (2 * math.pi)
        if turns < model.rope_low_frequency:
            frequency /= model.rope_factor
        elif (
            turns <= model.rope_high_frequency
            and model.rope_high_frequency > model.rope_low_frequency
        ):
            smooth = (turns - model.rope_low_frequency) / (
                model.rope_high_frequency - model.rope_low_frequency
            )
            frequency = (1 - smooth) * frequency / model.rope_factor + smooth * frequency
        frequencies.append(frequency)
    return frequencies


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Rotate heads [B, T, ..., C] by position in float32; their halves are pairs."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    shape = (*cos.shape[:2], *(1,) * (x.ndim - 3), cos.shape[-1])
    cos, sin = cos.reshape(shape), sin.reshape(shape)
    return jnp.concatenate(
        [first * cos - second * sin, second * cos + first * sin], axis=-1
    ).astype(x.dtype)


def norm(x: Array, weight: Array, eps: float) -> Array:
    """Return RMSNorm, computed in float32."""
    full = x.astype(jnp.float32)
    scaled = full * jax.lax.rsqrt((full * full).mean(axis=-1, keepdims=True) + eps)
    return (scaled * weight.astype(jnp.float32)).astype(x.dtype)


def positions_of(documents_BT: Array) -> Array:
    """Return each token's position in its document, from document numbers that grow in a row."""
    length = documents_BT.shape[1]
    place = jnp.arange(length)[None, :]
    starts = jnp.concatenate(
        [jnp.ones_like(documents_BT[:, :1], bool), documents_BT[:, 1:] != documents_BT[:, :-1]],
        axis=1,
    )
    return place - jax.lax.cummax(jnp.where(starts, place, 0), axis=1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def products(
    x: Array, weights: tuple[Array, ...], names: tuple[str, ...], placing: Placing
) -> tuple[Array, ...]:
    """Return x times each of several frozen weights, which are gathered for this use.

    Their input gradients are added first. So if mp splits the outputs of the weights, the compiler
    can add the parts on each device and reduce once. Gradients of the weights are never computed.
    """
    return tuple(
        x @ placing.weight(name, weight) for name, weight in zip(names, weights, strict=True)
    )


def _products_forward(
    x: Array, weights: tuple[Array, ...], names: tuple[str, ...], placing: Placing
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    return products(x, weights, names, placing), weights


def _products_backward(
    names: tuple[str, ...],
    placing: Placing,
    weights: tuple[Array, ...],
    gradients: tuple[Array, ...],
) -> tuple[Array, None]:
    # gradient @ weight.T would gather the transposed weight a second time.
    gathered = (placing.weight(name, weight) for name, weight in zip(names, weights, strict=True))
    parts = [
        jnp.einsum("...o,io->...i", gradient, weight)
        for gradient, weight in zip(gradients, gathered, strict=True)
    ]
    return functools.reduce(jnp.add, parts), None


products.defvjp(_products_forward, _products_backward)


@jax.custom_vjp  # type: ignore[untyped-decorator]
def low_rank(x: Array, a: Array, b: Array) -> Array:
    """Return (x A) B of x [B, T, in], A [in, r], B [r, out].

    The gradients of A and B have the thin matrix as the first factor. The other order would
    transpose x and the output's gradient.
    """
    return (x @ a) @ b


def _low_rank_forward(x: Array, a: Array, b: Array) -> tuple[Array, tuple[Array, ...]]:
    inside = checkpoint_name(x @ a, KEPT)
    return inside @ b, (x, a, b, inside)


def _low_rank_backward(saved: tuple[Array, ...], gradient: Array) -> tuple[Array, Array, Array]:
    x, a, b, inside = saved
    towards = jnp.einsum("...o,ro->...r", gradient, b)
    tokens = tuple(range(x.ndim - 1)), tuple(range(x.ndim - 1))
    a_gradient = jax.lax.dot_general(towards, x, (tokens, ((), ()))).T
    b_gradient = jax.lax.dot_general(inside, gradient, (tokens, ((), ())))
    return jnp.einsum("...r,ir->...i", towards, a), a_gradient, b_gradient


low_rank.defvjp(_low_rank_forward, _low_rank_backward)


class Linear:
    """Products with frozen weights, plus those of their adapters.

    `dropout` is (key, rate) for the input of the adapters, or None.
    """

    def __init__(
        self,
        weights: Tree,
        adapters: Tree,
        scale: float,
        placing: Placing,
        dropout: tuple[Array, float] | None = None,
    ) -> None:
        self.weights, self.adapters, self.scale, self.placing, self.dropout = (
            weights,
            adapters,
            scale,
            placing,
            dropout,
        )

    def __call__(self, *names: str, x: Array) -> Any:
        """Return x times each of the named weights: a tuple, or one array for one name."""
        results = products(x, tuple(self.weights[name] for name in names), names, self.placing)
        adapted = tuple(
            self._adapted(name, x, result) for name, result in zip(names, results, strict=True)
        )
        return adapted if len(names) > 1 else adapted[0]

    def _adapted(self, name: str, x: Array, result: Array) -> Array:
        if name not in self.adapters:
            return result
        a, b = (
            self.placing.adapter(name, part, self.adapters[name][part].astype(x.dtype))
            for part in ("a", "b")
        )
        inside = x
        if self.dropout is not None:
            key, rate = self.dropout
            kept = jax.random.bernoulli(
                jax.random.fold_in(key, shapes_order(name)), 1 - rate, x.shape
            )
            inside = jnp.where(kept, x / (1 - rate), 0).astype(x.dtype)
        return result + low_rank(inside, a, b) * jnp.asarray(self.scale, x.dtype)


def shapes_order(name: str) -> int:
    """Return a number for a target, so that each target has different dropout."""
    return sum(ord(letter) for letter in name)


def layer(
    config: LoraRunConfig,
    x: Array,
    linear: Linear,
    cos: Array,
    sin: Array,
    documents: Array,
    weights: Tree,
) -> Array:
    """Return one layer's output [B, T, D]."""
    model = config.model
    batch, length, _ = x.shape
    group = model.heads // model.kv_heads
    hidden = norm(x, weights["attention_norm"], model.norm_eps)
    query, key, value = linear("q_proj", "k_proj", "v_proj", x=hidden)
    query = query.reshape(batch, length, model.kv_heads, group, model.head_dim)
    key, value = (
        each.reshape(batch, length, model.kv_heads, model.head_dim) for each in (key, value)
    )
    query, key, value = (
        checkpoint_name(each, KEPT)
        for each in (rotate(query, cos, sin), rotate(key, cos, sin), value)
    )
    mixed = attention(query, key, value, documents, config.compute.attention_block)
    x = checkpoint_name(x + linear("o_proj", x=mixed.reshape(batch, length, -1)), KEPT)
    hidden = norm(x, weights["mlp_norm"], model.norm_eps)
    gate, up = (checkpoint_name(each, KEPT) for each in linear("gate_proj", "up_proj", x=hidden))
    return x + linear("down_proj", x=jax.nn.silu(gate) * up)


def hidden_states(
    config: LoraRunConfig,
    weights: Tree,
    adapters: Tree,
    tokens_BT: Array,
    documents_BT: Array,
    key: Array | None,
    placing: Placing,
) -> Array:
    """Return the normalised last hidden states [B, T, D].

    `placing` has the mesh; `key` draws the dropout.
    """
    model, lora = config.model, config.lora
    angles = positions_of(documents_BT)[..., None].astype(jnp.float32) * jnp.asarray(
        frequencies(model), jnp.float32
    )
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    drops = key is not None and lora.dropout > 0
    keys = (
        jax.random.split(key, model.layers) if drops else jnp.zeros((model.layers, 0), jnp.uint32)
    )

    def body(x: Array, one: tuple[Tree, Tree, Array]) -> tuple[Array, None]:
        own, low, mine = one
        linear = Linear(own, low, lora.scale, placing, (mine, lora.dropout) if drops else None)
        return placing.activations(layer(config, x, linear, cos, sin, documents_BT, own)), None

    if config.compute.remat != "none":
        body = jax.checkpoint(body, policy=POLICIES[config.compute.remat], prevent_cse=False)
    x = placing.activations(weights["embed"][tokens_BT])
    stacked = (weights["layers"], adapters["layers"], keys)
    x, _ = jax.lax.scan(body, x, stacked, unroll=config.compute.unroll)
    return norm(x, weights["norm"], model.norm_eps)


def logits(
    config: LoraRunConfig,
    weights: Tree,
    adapters: Tree,
    tokens_BT: Array,
    documents_BT: Array | None = None,
) -> Array:
    """Return logits [B, T, V] in float32; without `documents_BT` a row is one document."""
    documents = jnp.zeros_like(tokens_BT) if documents_BT is None else documents_BT
    here = Placing()
    hidden = hidden_states(config, weights, adapters, tokens_BT, documents, None, here)
    return Linear(weights, adapters, config.lora.scale, here)("lm_head", x=hidden).astype(
        jnp.float32
    )
