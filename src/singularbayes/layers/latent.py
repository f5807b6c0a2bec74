"""Attention between factored projections, at the cost of their rank.

With W_q = A_q B_qᵀ and W_k = A_k B_kᵀ the scores of head h are (x A_q) (B_qhᵀ B_kh) (y A_k)ᵀ, and the output is
Σ_h P_h (y A_v) (B_vhᵀ A_oh) B_oᵀ: queries, keys and values of heads · size values per position are never made, only
`rank` of each. The products in brackets are rank × rank and made once per draw. A bias of the keys adds the same to all
scores of a query, which softmax does not see.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops


@dataclass(frozen=True)
class Projection:
    """x A Bᵀ + bias, with the side of the heads (B of the inputs, A of the output) as (heads, size, rank)."""

    a: Any
    b: Any
    bias: Any | None


def latent_attention(inputs, projections, mask, scale):
    """Returns the attention's output and its weights (batch, heads, queries, keys).

    Args:
        inputs: query, key and value, (batch, positions, features).
        projections: of query, key, value and output.
        mask: where a query may look, (…, queries, keys), or None.
    """
    q, k, v, o = projections
    x, y, z = _inner(inputs, (q.a, k.a, v.a))
    batch, length, _ = x.shape
    heads = k.b.shape[0]
    # Heads stay beside the rank, (batch, length, heads, rank): then every product is plain, and nothing is turned.
    between, shift = _split(scale * ops.einsum("hsq,hsk->qhk", _beside(q), k.b), q)
    queries = ops.matmul(x, ops.reshape(between, (x.shape[-1], -1))) + ops.reshape(ops.sum(shift, axis=0), (-1,))
    scores = ops.matmul(ops.reshape(queries, (batch, length * heads, -1)), ops.transpose(y, (0, 2, 1)))
    weights = _softmax(ops.reshape(scores, (batch, length, heads, -1)), mask)
    seen = ops.matmul(ops.reshape(ops.cast(weights, y.dtype), scores.shape), z)
    onward, shift = _split(ops.einsum("hsv,hso->vho", _beside(v), o.a), v)
    onward = ops.reshape(ops.transpose(onward, (1, 0, 2)), (-1, onward.shape[-1]))
    inner = ops.matmul(ops.reshape(seen, (batch, length, -1)), onward) + ops.sum(shift, axis=(0, 1))
    outputs = ops.matmul(inner, ops.transpose(o.b))
    return (outputs if o.bias is None else outputs + o.bias), ops.transpose(ops.cast(weights, y.dtype), (0, 2, 1, 3))


def _beside(projection):
    """Returns B of the inputs with the bias, if there is one, as one more column."""
    if projection.bias is None:
        return projection.b
    return ops.concatenate([projection.b, ops.expand_dims(projection.bias, -1)], axis=-1)


def _split(product, projection):
    """Returns the rows of the rank, and the row that the bias made: none without one."""
    rank = projection.b.shape[-1]
    return product[:rank], product[rank:]


def _inner(inputs, factors) -> list:
    """Returns each input times its factor, in one product for equal inputs."""
    products: list = [None] * len(inputs)
    for x in {id(x): x for x in inputs}.values():
        where = [i for i, other in enumerate(inputs) if other is x]
        product = ops.matmul(x, ops.concatenate([factors[i] for i in where], axis=1))
        ends = np.cumsum([factors[i].shape[1] for i in where])[:-1].tolist()
        for i, part in zip(where, ops.split(product, ends, axis=-1) if ends else [product], strict=True):
            products[i] = part
    return products


def _softmax(scores, mask):
    """Returns the weights over the last axis of scores (batch, queries, heads, keys), where the mask allows any."""
    scores = ops.cast(scores, "float32") if scores.dtype != "float64" else scores
    if mask is not None:
        while len(mask.shape) < 4:
            mask = ops.expand_dims(mask, -3)
        mask = ops.transpose(mask, (0, 2, 1, 3))
        # Finite, so that a query which may look nowhere looks everywhere instead of giving NaN.
        scores = ops.where(mask, scores, -1e30)
    return ops.softmax(scores, axis=-1)
