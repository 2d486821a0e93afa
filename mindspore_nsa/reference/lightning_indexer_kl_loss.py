"""The losses that train a lightning indexer, with their gradients: how far what it gives to keys is
from what attention gives to them."""

from typing import NamedTuple

import numpy as np

from .attention import FLT_MAX
from .lightning_indexer import token_segments
from .precision import FLOAT64


class _Row(NamedTuple):
    """A query of one group: what shares a key head of the indexer."""

    row: int
    group: int
    keys: np.ndarray  # row numbers of key, a token as often as it is picked


class _Tensors:
    """The inputs of a call with one dimension of rows, and the gradients that add up."""

    def __init__(self, query, key, query_index, key_index, weights, ropes, precision):
        def flat(x, kept):
            return None if x is None else np.asarray(x, precision.real).reshape(
                -1, *np.shape(x)[-kept:]
            )  # fmt: skip

        self.q, self.k, self.qi, self.ki = (
            flat(x, 2) for x in (query, key, query_index, key_index)
        )
        self.q_rope, self.k_rope = (flat(x, 2) for x in ropes)
        self.w = flat(weights, 1)
        self.dq, self.dk, self.dw = (np.zeros_like(x) for x in (self.qi, self.ki, self.w))
        self.groups, self.precision = self.ki.shape[1], precision

    def heads_of(self, group, heads):
        """Which of `heads` are the group's."""
        width = heads // self.groups
        return slice(group * width, (group + 1) * width)

    def teacher(self, at, scale, row_max, row_sum):
        """The mean over the heads of the group of exp(scale * q.k - max) / sum."""
        heads, key_heads = self.q.shape[1], self.k.shape[1]
        found = []
        for head in range(heads)[self.heads_of(at.group, heads)]:
            of_key = head // (heads // key_heads)
            scores = self._products(self.q, self.k, at, head, of_key)
            if self.q_rope is not None:
                scores = scores + self._products(self.q_rope, self.k_rope, at, head, of_key)
            top, total = row_max[at.row, head], row_sum[at.row, head]
            exponent = scores * self.precision.real(scale) - top
            found.append(np.exp(exponent) / total)
        return self.precision.sum(np.stack(found), axis=0) / self.precision.real(len(found))

    def _products(self, q, k, at, head, of_key):
        return self.precision.matmul(q[at.row, head][None], k[at.keys, of_key].T)[0]

    def scores(self, at):
        """The products of the indexer's heads, and its scores."""
        heads = self.heads_of(at.group, self.qi.shape[1])
        z = self.precision.matmul(self.qi[at.row, heads], self.ki[at.keys, at.group].T)
        weighted = np.maximum(0, z) * self.w[at.row, heads][:, None]
        return z, self.precision.sum(weighted, axis=0)

    def add(self, at, p, z, scores, row_max, row_sum):
        """Add the gradients of a row, and give its loss."""
        precision, heads = self.precision, self.heads_of(at.group, self.qi.shape[1])
        y = np.exp(scores - row_max) / row_sum
        mass = precision.sum(p, axis=-1)
        d_scores = precision.difference(y * mass, p)
        self.dw[at.row, heads] = precision.sum(d_scores * np.maximum(0, z), axis=-1)
        g = d_scores * self.w[at.row, heads][:, None] * (z > 0)
        self.dq[at.row, heads] = precision.matmul(g, self.ki[at.keys, at.group])
        dk = precision.matmul(g.T, self.qi[at.row, heads])
        np.add.at(self.dk[:, at.group], at.keys, dk)
        real = p > 0
        log_p = np.log(np.where(real, p, 1))
        log_y = np.where(real, scores - row_max - np.log(row_sum), 0)
        return precision.sum(np.where(np.isnan(p), p, p * precision.difference(log_p, log_y)), -1)

    def gradients(self, query_index, key_index, losses):
        """The outputs of the call."""
        precision = self.precision
        losses = np.asarray(losses, precision.real)
        return (
            precision.output(self.dq).reshape(query_index.shape),
            precision.output(self.dk).reshape(key_index.shape),
            self.dw.reshape(query_index.shape[:-1]),
            precision.sum(losses, axis=0).reshape(1),
        )


def _by_row(statistics, layout):
    """[rows, N] of the statistics of an attention, [B, N2, Sq, N / N2] or [N2, T1, N / N2]."""
    x = np.moveaxis(np.asarray(statistics), -3 if layout == "TND" else 1, -2)
    return x.reshape(-1, x.shape[-2] * x.shape[-1])


def sparse_lightning_indexer_grad_kl_loss(
    query,
    key,
    query_index,
    key_index,
    weights,
    sparse_indices,
    softmax_max,
    softmax_sum,
    scale_value,
    *,
    query_rope=None,
    key_rope=None,
    actual_seq_qlen=None,
    actual_seq_klen=None,
    layout="BSND",
    sparse_mode=3,
    precision=FLOAT64,
):
    """(d_query_index, d_key_index, d_weights, loss [1])

    For a query and each key head of the indexer, over its picks s that the query sees, as often as
    they stand there: p[s] is the mean of exp(scale*(q.k[s] + q_rope.k_rope[s]) - max)/sum over the
    heads of the group, I[s] = sum_h w[h] * max(0, q_index[h].k_index[s]), y = softmax(I);
    loss = sum p*(log p - log y) over queries and keys, and dI = y*(sum of p) - p goes on as in
    `lightning_indexer_grad`. DeepSeek-V3.2; CANN aclnnSparseLightningIndexerGradKLLoss.
    """
    of = _Tensors(query, key, query_index, key_index, weights, (query_rope, key_rope), precision)
    row_max, row_sum = (
        _by_row(x, layout).astype(precision.real) for x in (softmax_max, softmax_sum)
    )
    picks = np.asarray(sparse_indices).reshape(-1, of.groups, np.shape(sparse_indices)[-1])
    losses = [0]
    for at, visible in _rows(
        query, key, of.groups, actual_seq_qlen, actual_seq_klen, layout, sparse_mode
    ):
        chosen = np.sort(picks[at.row, at.group])
        chosen = chosen[(chosen >= 0) & (chosen < visible)]
        if len(chosen) == 0:
            continue
        at = at._replace(keys=at.keys[chosen])
        p = of.teacher(at, scale_value, row_max, row_sum)
        z, scores = of.scores(at)
        top = scores.max()
        total = precision.sum(np.exp(scores - top), axis=-1)
        losses.append(of.add(at, p, z, scores, top, total))
    return of.gradients(query_index, key_index, losses)


def _rows(query, key, groups, actual_seq_qlen, actual_seq_klen, layout, sparse_mode):
    """Every _Row with all keys of its segment, and how many of them it sees."""
    for part in token_segments(
        query, key, actual_seq_qlen, actual_seq_klen, None, layout, layout, sparse_mode
    ):
        for n, visible in enumerate(part.visible):
            for group in range(groups):
                yield _Row(part.rows.start + n, group, part.keys), visible


def dense_lightning_indexer_softmax_lse(
    query_index,
    key_index,
    weights,
    *,
    actual_seq_qlen=None,
    actual_seq_klen=None,
    layout="BSND",
    sparse_mode=3,
    precision=FLOAT64,
):
    """(softmax_max_index, softmax_sum_index), [B, heads of key_index, Sq] or packed [heads, T1]

    The maximum of I over the keys that a query sees, and the sum of exp(I - max); -FLT_MAX and
    FLT_MAX where it sees none. CANN aclnnDenseLightningIndexerSoftmaxLse.
    """
    of = _Tensors(query_index, key_index, query_index, key_index, weights, (None, None), precision)
    row_max = np.full((len(of.qi), of.groups), -FLT_MAX)
    row_sum = -row_max
    for at, visible in _rows(
        query_index, key_index, of.groups, actual_seq_qlen, actual_seq_klen, layout, sparse_mode
    ):
        if visible == 0:
            continue
        _, scores = of.scores(at._replace(keys=at.keys[:visible]))
        row_max[at.row, at.group] = top = scores.max()
        row_sum[at.row, at.group] = precision.sum(np.exp(scores - top), axis=-1)
    if layout == "TND":
        return row_max.T, row_sum.T
    shape = (*query_index.shape[:2], of.groups)
    return tuple(x.reshape(shape).swapaxes(1, 2) for x in (row_max, row_sum))


def dense_lightning_indexer_grad_kl_loss(
    query,
    key,
    query_index,
    key_index,
    weights,
    softmax_max,
    softmax_sum,
    softmax_max_index,
    softmax_sum_index,
    scale_value,
    *,
    query_rope=None,
    key_rope=None,
    actual_seq_qlen=None,
    actual_seq_klen=None,
    layout="BSND",
    sparse_mode=3,
    precision=FLOAT64,
):
    """(d_query_index, d_key_index, d_weights, loss [1])

    As `sparse_lightning_indexer_grad_kl_loss`, over all keys that a query sees, with the student's
    softmax from `dense_lightning_indexer_softmax_lse`. CANN aclnnDenseLightningIndexerGradKLLoss.
    """
    of = _Tensors(query, key, query_index, key_index, weights, (query_rope, key_rope), precision)
    row_max, row_sum = (
        _by_row(x, layout).astype(precision.real) for x in (softmax_max, softmax_sum)
    )
    index_max, index_sum = (
        _by_row(np.asarray(x)[..., None], layout).astype(precision.real)
        for x in (softmax_max_index, softmax_sum_index)
    )
    losses = [0]
    for at, visible in _rows(
        query, key, of.groups, actual_seq_qlen, actual_seq_klen, layout, sparse_mode
    ):
        if visible == 0:
            continue
        at = at._replace(keys=at.keys[:visible])
        p = of.teacher(at, scale_value, row_max, row_sum)
        z, scores = of.scores(at)
        top, total = index_max[at.row, at.group], index_sum[at.row, at.group]
        losses.append(of.add(at, p, z, scores, top, total))
    return of.gradients(query_index, key_index, losses)


def lightning_indexer_kl_loss(
    query,
    key,
    query_index,
    key_index,
    weights,
    sparse_indices,
    softmax_max,
    softmax_sum,
    scale_value,
    *,
    query_rope=None,
    key_rope=None,
    actual_seq_qlen=None,
    actual_seq_klen=None,
    layout="BSND",
    sparse_mode=3,
    reduction="mean",
    coeff=1.0,
):
    """The loss of `sparse_lightning_indexer_grad_kl_loss`, a float: "mean" is over the queries.

    Without sparse_indices that of `dense_lightning_indexer_grad_kl_loss`.
    """
    lists = {
        "actual_seq_qlen": actual_seq_qlen,
        "actual_seq_klen": actual_seq_klen,
        "layout": layout,
        "sparse_mode": sparse_mode,
    }
    indexer, statistics = (query_index, key_index, weights), (softmax_max, softmax_sum)
    more = {"query_rope": query_rope, "key_rope": key_rope, **lists}
    if sparse_indices is None:
        statistics += dense_lightning_indexer_softmax_lse(*indexer, **lists)
        function = dense_lightning_indexer_grad_kl_loss
    else:
        statistics = (sparse_indices, *statistics)
        function = sparse_lightning_indexer_grad_kl_loss
    *_, loss = function(query, key, *indexer, *statistics, scale_value, **more)
    queries = np.prod(query.shape[:-2]) if reduction == "mean" else 1
    return float(loss[0] * coeff / max(queries, 1))
