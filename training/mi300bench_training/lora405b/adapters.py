"""Adapters: low-rank matrices A and B for a frozen weight, in a separate tree.

Only the adapters are trained. A is drawn uniformly as in PEFT (Kaiming with a = sqrt(5): bounds
1/sqrt(in)), and B is zero, so the model does not change at the start.
"""

from typing import Any

import jax
import jax.numpy as jnp

from mi300bench_training.lora405b import shapes
from mi300bench_training.lora405b.config import LlamaConfig, LoraConfig

Tree = dict[str, Any]


def draw(model: LlamaConfig, lora: LoraConfig, key: jax.Array) -> Tree:
    """Return new adapters {layers: {target: {a, b}}, lm_head: {a, b}}: float32, layers stacked."""
    tree: Tree = {"layers": {}}
    for parameter in shapes.adapters(model, lora):
        *place, name, kind = parameter.name.split(".")
        holder = tree["layers"] if place else tree
        matrix = jnp.zeros(parameter.shape, jnp.float32)
        if kind == "a":
            key, mine = jax.random.split(key)
            bound = parameter.shape[-2] ** -0.5
            matrix = jax.random.uniform(mine, parameter.shape, jnp.float32, -bound, bound)
        holder.setdefault(name, {})[kind] = matrix
    return tree


def merge(weights: Tree, adapters: Tree, lora: LoraConfig) -> Tree:
    """Return the weights plus their adapters, for an export; `weights` is not changed."""

    def added(weight: jax.Array, pair: dict[str, jax.Array]) -> jax.Array:
        change = jnp.einsum("...ir,...ro->...io", pair["a"], pair["b"]) * lora.scale
        return (weight.astype(jnp.float32) + change).astype(weight.dtype)

    layers = {
        name: added(w, adapters["layers"][name]) if name in adapters["layers"] else w
        for name, w in weights["layers"].items()
    }
    merged = weights | {"layers": layers}
    if "lm_head" in adapters:
        merged["lm_head"] = added(weights["lm_head"], adapters["lm_head"])
    return merged
