"""Causal attention over packed documents, with its own backward pass.

`block` queries are computed at a time, with the keys up to their end. So only the attention weights
of a block exist, never T x T of them. The backward pass computes them again from the logarithm of
their sum. Scores and softmax are float32. Keys and values of a group are not repeated: the queries
of a block and group are the rows of one product.

Every product reads and writes its large operand in rows: the weights are [rows, keys] in forward
and [keys, rows] in backward, and only matrices of head width are transposed.

Shape letters: B batch   T tokens   G key-value heads   g queries for each   C head width
R rows of a block (g x its tokens)
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.ad_checkpoint import checkpoint_name

# The name of what the remat policy "dots" keeps for the backward pass: only results of products.
KEPT = "kept"
MASKED = -1e30
FULL = jnp.float32


def _blocks(length: int, block: int) -> list[tuple[int, int]]:
    return [(start, min(start + block, length)) for start in range(0, length, block)]


def _rows(x_BTGgC: Array, start: int, end: int) -> Array:
    """Return a block's rows [B, G, R, C]."""
    batch, _, groups, group, width = x_BTGgC.shape
    return (
        x_BTGgC[:, start:end]
        .transpose(0, 2, 3, 1, 4)
        .reshape(batch, groups, group * (end - start), width)
    )


def _unrows(x_BGRC: Array, group: int) -> Array:
    """Return the block [B, t, G, g, C] of some rows; the inverse of `_rows`."""
    batch, groups, rows, width = x_BGRC.shape
    return x_BGRC.reshape(batch, groups, group, rows // group, width).transpose(0, 3, 1, 2, 4)


def _places(
    documents: Array, start: int, end: int, group: int
) -> tuple[Array, Array, Array, Array]:
    """Return time [1, 1, R] and document [B, 1, R] of each row, and those of each key.

    A row attends to the keys of its document up to its own time.
    """
    times, numbers = (
        jnp.tile(jnp.arange(start, end), group),
        jnp.tile(documents[:, start:end], (1, group)),
    )
    return (
        times[None, None],
        numbers[:, None],
        jnp.arange(end)[None, None],
        documents[:, None, :end],
    )


def _forward(
    query: Array, key: Array, value: Array, documents: Array, block: int
) -> tuple[Array, list[Array]]:
    group, scale = query.shape[3], query.shape[-1] ** -0.5
    keys_BGCT, values_BGTC = key.transpose(0, 2, 3, 1), value.transpose(0, 2, 1, 3)
    outputs, sums = [], []
    for start, end in _blocks(query.shape[1], block):
        rows = _rows(query, start, end)
        scores = (
            jnp.einsum("bgrc,bgct->bgrt", rows, keys_BGCT[..., :end], preferred_element_type=FULL)
            * scale
        )
        time, number, key_time, key_number = _places(documents, start, end, group)
        seen = (time[..., None] >= key_time[:, :, None]) & (
            number[..., None] == key_number[:, :, None]
        )
        scores = jnp.where(seen, scores, MASKED)
        highest = scores.max(axis=-1, keepdims=True)
        weights = jnp.exp(scores - highest)
        total = weights.sum(axis=-1, keepdims=True)
        mixed = jnp.einsum(
            "bgrt,bgtc->bgrc",
            weights.astype(value.dtype),
            values_BGTC[:, :, :end],
            preferred_element_type=FULL,
        )
        outputs.append(_unrows((mixed / total).astype(value.dtype), group))
        sums.append((highest + jnp.log(total))[..., 0])
    return jnp.concatenate(outputs, axis=1), sums


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def attention(query: Array, key: Array, value: Array, documents: Array, block: int) -> Array:
    """Return attended values [B, T, G, g, C] within `documents` [B, T].

    `query` has the shape of the result; `key` and `value` are [B, T, G, C].
    """
    return _forward(query, key, value, documents, block)[0]


def _attention_forward(
    query: Array, key: Array, value: Array, documents: Array, block: int
) -> tuple[Array, Any]:
    mixed, sums = _forward(query, key, value, documents, block)
    mixed, sums = checkpoint_name(mixed, KEPT), [checkpoint_name(each, KEPT) for each in sums]
    return mixed, (query, key, value, documents, mixed, sums)


def _attention_backward(
    block: int, saved: Any, gradient: Array
) -> tuple[Array, Array, Array, None]:
    query, key, value, documents, mixed, sums = saved
    group, scale, kind = query.shape[3], query.shape[-1] ** -0.5, query.dtype
    keys_BGTC, values_BGTC = key.transpose(0, 2, 1, 3), value.transpose(0, 2, 1, 3)
    keys_BGCT = key.transpose(0, 2, 3, 1)
    key_gradient = jnp.zeros(keys_BGTC.shape, FULL)
    value_gradient = jnp.zeros(values_BGTC.shape, FULL)
    query_gradients = []
    for (start, end), sums_BGR in zip(_blocks(query.shape[1], block), sums, strict=True):
        rows, out = _rows(query, start, end), _rows(gradient, start, end)
        mean = (out.astype(FULL) * _rows(mixed, start, end).astype(FULL)).sum(axis=-1)
        scores = (
            jnp.einsum(
                "bgtc,bgcr->bgtr",
                keys_BGTC[:, :, :end],
                rows.swapaxes(2, 3),
                preferred_element_type=FULL,
            )
            * scale
        )
        time, number, key_time, key_number = _places(documents, start, end, group)
        seen = (time[:, :, None] >= key_time[..., None]) & (
            number[:, :, None] == key_number[..., None]
        )
        weights = jnp.where(seen, jnp.exp(scores - sums_BGR[:, :, None]), 0.0)
        towards = jnp.einsum(
            "bgtc,bgcr->bgtr",
            values_BGTC[:, :, :end],
            out.swapaxes(2, 3),
            preferred_element_type=FULL,
        )
        inner = (weights * (towards - mean[:, :, None]) * scale).astype(kind)
        along = jnp.einsum(
            "bgtr,bgrc->bgtc", weights.astype(kind), out, preferred_element_type=FULL
        )
        value_gradient = value_gradient.at[:, :, :end].add(along)
        key_gradient = key_gradient.at[:, :, :end].add(
            jnp.einsum("bgtr,bgrc->bgtc", inner, rows, preferred_element_type=FULL)
        )
        turned = jnp.einsum("bgct,bgtr->bgcr", keys_BGCT[..., :end], inner)
        query_gradients.append(_unrows(turned.swapaxes(2, 3), group))
    query_gradient = jnp.concatenate(query_gradients, axis=1)
    key_gradient, value_gradient = (
        x.transpose(0, 2, 1, 3).astype(kind) for x in (key_gradient, value_gradient)
    )
    return query_gradient, key_gradient, value_gradient, None


attention.defvjp(_attention_forward, _attention_backward)
