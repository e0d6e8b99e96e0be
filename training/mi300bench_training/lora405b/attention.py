"""Causal attention over packed documents, with a backward pass of its own.

Queries are taken `block` at a time, each against the keys up to its end alone, so the weights of a block exist and never
T x T of them; the backward pass computes them again from the logarithm of their sum. Scores and softmax are float32. Keys
and values of a group are used as they are, not repeated.

Shape letters: B batch   T tokens   G key-value heads   g queries a key-value head   C head width
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

MASKED = -1e30


def _scores(query: Array, key: Array, documents_q: Array, documents_k: Array, start: int, scale: float) -> Array:
    """Return masked scores [B, G, g, q, k] in float32 of queries that begin at `start`."""
    scores = jnp.einsum("btghc,bsgc->bghts", query, key, preferred_element_type=jnp.float32) * scale
    times_q = start + jnp.arange(query.shape[1])[:, None]
    seen = (times_q >= jnp.arange(key.shape[1])[None, :])[None] & (documents_q[:, :, None] == documents_k[:, None, :])
    return jnp.where(seen[:, None, None], scores, MASKED)


def _blocks(length: int, block: int) -> list[tuple[int, int]]:
    return [(start, min(start + block, length)) for start in range(0, length, block)]


def _forward(query: Array, key: Array, value: Array, documents: Array, block: int) -> tuple[Array, Array]:
    scale = query.shape[-1] ** -0.5
    outputs, sums = [], []
    for start, end in _blocks(query.shape[1], block):
        scores = _scores(query[:, start:end], key[:, :end], documents[:, start:end], documents[:, :end], start, scale)
        highest = scores.max(axis=-1, keepdims=True)
        weights = jnp.exp(scores - highest)
        total = weights.sum(axis=-1, keepdims=True)
        mixed = jnp.einsum("bghts,bsgc->btghc", (weights / total).astype(value.dtype), value[:, :end])
        outputs.append(mixed)
        sums.append((highest + jnp.log(total))[..., 0])
    return jnp.concatenate(outputs, axis=1), jnp.concatenate(sums, axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def attention(query: Array, key: Array, value: Array, documents: Array, block: int) -> Array:
    """Return attended values [B, T, G, g, C] of `query` (the same), `key` and `value` [B, T, G, C], within `documents` [B, T]."""
    return _forward(query, key, value, documents, block)[0]


def _attention_forward(query: Array, key: Array, value: Array, documents: Array, block: int) -> tuple[Array, Any]:
    mixed, sums = _forward(query, key, value, documents, block)
    return mixed, (query, key, value, documents, mixed, sums)


def _attention_backward(block: int, saved: Any, gradient: Array) -> tuple[Array, Array, Array, None]:
    query, key, value, documents, mixed, sums = saved
    scale = query.shape[-1] ** -0.5
    key_gradient = jnp.zeros(key.shape, jnp.float32)
    value_gradient = jnp.zeros(value.shape, jnp.float32)
    query_gradients = []
    full = jnp.float32
    for start, end in _blocks(query.shape[1], block):
        part = slice(start, end)
        scores = _scores(query[:, part], key[:, :end], documents[:, part], documents[:, :end], start, scale)
        weights = jnp.exp(scores - sums[:, :, :, part, None])
        out = gradient[:, part]
        along = jnp.einsum("bghts,btghc->bsgc", weights.astype(out.dtype), out, preferred_element_type=full)
        value_gradient = value_gradient.at[:, :end].add(along)
        towards = jnp.einsum("btghc,bsgc->bghts", out, value[:, :end], preferred_element_type=full)
        mean = (out.astype(full) * mixed[:, part].astype(full)).sum(axis=-1).transpose(0, 2, 3, 1)[..., None]
        inner = (weights * (towards - mean) * scale).astype(query.dtype)
        query_gradients.append(jnp.einsum("bghts,bsgc->btghc", inner, key[:, :end]))
        key_gradient = key_gradient.at[:, :end].add(
            jnp.einsum("bghts,btghc->bsgc", inner, query[:, part], preferred_element_type=full)
        )
    query_gradient = jnp.concatenate(query_gradients, axis=1)
    return query_gradient, key_gradient.astype(key.dtype), value_gradient.astype(value.dtype), None


attention.defvjp(_attention_forward, _attention_backward)
