"""Scores of the keys that were picked for every query, for a piece of the queries at a time.

The picked keys of all queries would take queries x picks x D numbers. There is no gradient: using
one is an error.
"""

from typing import Any

import mindspore
from mindspore import Tensor, ops

from ._custom import planned_for_graph
from ._gradient import without_gradient
from ._plan import Planner

# Bytes of a piece's keys and scores.
_PIECE = 1 << 26
# A graph compiles every piece.
_MOST_IN_GRAPH = 32


def _plan_pieces(query: Any, picks: Any, text: str) -> tuple[Any, ...]:
    """Return the guard that refuses a gradient, and (first, end) of every piece.

    There is one piece where a graph does not know the sizes.
    """
    guard = without_gradient(text)
    (tokens, heads, dim), count = query.shape, picks.shape[-1]
    if min(tokens, heads, dim, count) < 0:
        return guard, ((0, None),)
    each = max(_PIECE // (4 * max(count * (dim + 2 * heads), 1)), 1)
    if planned_for_graph.get():
        each = max(each, -(-tokens // _MOST_IN_GRAPH))
    return guard, tuple((first, min(first + each, tokens)) for first in range(0, tokens, each))


def pieces_of(query: Tensor, picks: Tensor, text: str) -> Any:
    """The guard and pieces of the queries [T, heads, D] with picks [T, K]; text of the error."""
    return _planned_pieces(query, picks, text)


_planned_pieces = Planner(_plan_pieces, pieces_of)


def _products(query: Tensor, rows: Any, picks: Tensor) -> Tensor:
    """q.k in float32 [n, heads, K] for query [n, heads, D] and picks [n, K] of rows [R, D]."""
    keys = ops.gather(rows, ops.maximum(picks, ops.zeros_like(picks)), 0)
    return ops.matmul(query, ops.transpose(ops.cast(keys, mindspore.float32), (0, 2, 1)))


def attention_mass(
    query: Tensor, rows: Tensor, picks: Tensor, lse: Tensor, scale: float, text: str
) -> Tensor:
    """Mean over the heads of exp(scale q.k - lse), float32 [T, K].

    Args:
        query (Tensor): [T, heads, D].
        rows (Tensor): Keys [R, D].
        picks (Tensor): Numbers of rows [T, K]; -1 has mass 0.
        lse (Tensor): float32 [T, heads].
        scale (float): Factor of the products.
        text (str): Error of a gradient.
    """
    guard, pieces = pieces_of(query, picks, text)
    query, rows = guard(ops.cast(query, mindspore.float32)), guard(rows)
    lse, found = ops.expand_dims(guard(lse), 2), []
    for first, end in pieces:
        part = picks[first:end]
        scores = _products(query[first:end], rows, part) * scale - lse[first:end]
        mass = ops.mean(ops.exp(scores), 1)
        found.append(ops.where(part >= 0, mass, ops.zeros_like(mass)))
    return ops.concat(found, 0)


def index_scores(query: Tensor, rows: Tensor, weights: Tensor, picks: Tensor, text: str) -> Tensor:
    """sum_h w[h] max(0, q[h].k), float32 [T, K]; any value for picks of -1.

    Args:
        query (Tensor): [T, heads, d].
        rows (Tensor): Keys [R, d].
        weights (Tensor): float32 [T, heads].
        picks (Tensor): Numbers of rows [T, K].
        text (str): Error of a gradient.
    """
    guard, pieces = pieces_of(query, picks, text)
    query, rows = guard(ops.cast(query, mindspore.float32)), guard(rows)
    weights, found = ops.expand_dims(guard(weights), 2), []
    for first, end in pieces:
        products = ops.relu(_products(query[first:end], rows, picks[first:end]))
        found.append(ops.sum(products * weights[first:end], 1))
    return ops.concat(found, 0)
