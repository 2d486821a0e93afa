"""The composition of a window, compressed keys and a sink equals one dense softmax."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from mindspore_nsa.ops import sparse_flash_mla

HEADS, DIM, SCALE = 3, 8, 0.4
# Queries, keys, compressed keys and tokens after the last of these, of every segment.
SEGMENTS = [(7, 7, 2, 1), (1, 1, 0, 1), (4, 9, 3, 0), (6, 6, 2, 0)]


def _drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _masks(segments, ratio, left, right, picks, every=False):
    """Which keys, and how often which compressed keys, every query sees."""
    total = np.sum([s[:3] for s in segments], 0)
    window = np.zeros((total[0], total[1]), bool)
    entries = np.zeros((total[0], total[2]), np.int64)
    at = np.zeros(3, int)
    for queries, keys, compressed, residual in segments:
        for i in range(queries):
            place = i + keys - queries
            for t in range(max(0, place - left), min(keys, place + right + 1)):
                window[at[0] + i, at[1] + t] = True
            n = (i + 1 + compressed * ratio + residual - queries) // ratio
            n = compressed if every else min(n, compressed)
            for w in range(compressed) if picks is None else picks[at[0] + i, 0]:
                if 0 <= w < n:
                    entries[at[0] + i, at[2] + w] += 1
        at += (queries, keys, compressed)
    return window, entries


def _dense(query, keys, entries, sinks, window, counts):
    """The same with MindSpore's operators on whole matrices, and the log-sum-exp."""
    rows = ops.concat((keys, entries))[:, 0]
    seen = Tensor(np.concatenate([window.astype(np.float32), counts.astype(np.float32)], 1))
    scores = ops.matmul(ops.transpose(query, (1, 0, 2)), ops.transpose(rows, (1, 0))) * SCALE
    weights = ops.exp(scores) * seen
    total = weights.sum(-1, keepdims=True) + ops.exp(sinks).reshape(-1, 1, 1)
    return ops.transpose(ops.matmul(weights / total, rows), (1, 0, 2)), ops.log(total)[..., 0]


def _sums(numbers):
    return Tensor(np.concatenate(([0], np.cumsum(numbers))))


CASES = [
    dict(ratio=3, left=2, right=0, picks=2, every=False),
    dict(ratio=3, left=0, right=0, picks=None, every=False),
    dict(ratio=3, left=20, right=1, picks=3, every=False),
    dict(ratio=1, left=4, right=0, picks=4, every=True),
]


@pytest.mark.parametrize("case", CASES)
def test_packed(case):
    queries, keys, compressed, residual = zip(*SEGMENTS)
    query, ori = _drawn(0, sum(queries), HEADS, DIM), _drawn(1, sum(keys), 1, DIM)
    cmp, sinks = _drawn(2, sum(compressed), 1, DIM), _drawn(3, HEADS)
    picks = None
    if case["picks"] is not None:
        drawn = np.random.default_rng(4).integers(-1, 4, (len(query), 1, case["picks"]))
        picks = drawn.astype(np.int32)
    window, counts = _masks(
        SEGMENTS, case["ratio"], case["left"], case["right"], picks, case["every"]
    )
    slope, chosen = Tensor(_drawn(5, *query.shape)), None if picks is None else Tensor(picks)

    def ours(query, ori, cmp, sinks):
        out, lse = sparse_flash_mla(
            query, ori_kv=ori, cmp_kv=cmp, cmp_sparse_indices=chosen,
            cu_seqlens_q=_sums(queries), cu_seqlens_ori_kv=_sums(keys),
            cu_seqlens_cmp_kv=_sums(compressed), cmp_residual_kv=Tensor(residual), sinks=sinks,
            softmax_scale=SCALE, cmp_ratio=case["ratio"], ori_win_left=case["left"],
            ori_win_right=case["right"], cmp_mask_mode=0 if case["every"] else 3, layout_q="TND",
            layout_kv="TND", return_softmax_lse=True,
        )  # fmt: skip
        return (out * slope).sum(), out, ops.stop_gradient(lse)

    def plain(query, ori, cmp, sinks):
        out, lse = _dense(query, ori, cmp, sinks, window, counts)
        return (out * slope).sum(), out, lse

    given = tuple(map(Tensor, (query, ori, cmp, sinks)))
    (_, out, lse), got = ms.value_and_grad(ours, (0, 1, 2, 3), has_aux=True)(*given)
    (_, want, sums), right = ms.value_and_grad(plain, (0, 1, 2, 3), has_aux=True)(*given)
    np.testing.assert_allclose(out.asnumpy(), want.asnumpy(), atol=2e-6)
    np.testing.assert_allclose(lse.asnumpy()[0].T, sums.asnumpy(), atol=1e-5)
    for mine, theirs in zip(got, right, strict=True):
        np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), atol=2e-5)


def test_rows_are_segments():
    query, ori, cmp = _drawn(0, 2, 7, HEADS, DIM), _drawn(1, 2, 7, 1, DIM), _drawn(2, 2, 2, 1, DIM)
    residual = Tensor([1, 1])
    options = dict(softmax_scale=SCALE, cmp_ratio=3, ori_win_left=2, cmp_residual_kv=residual)
    both = dict(ori_kv=Tensor(ori), cmp_kv=Tensor(cmp), return_softmax_lse=True, **options)
    out, lse = sparse_flash_mla(Tensor(query), **both)
    assert out.shape == query.shape and lse.shape == (2, 1, 7, HEADS)
    packed, other = sparse_flash_mla(
        Tensor(query.reshape(14, HEADS, DIM)), ori_kv=Tensor(ori.reshape(14, 1, DIM)),
        cmp_kv=Tensor(cmp.reshape(4, 1, DIM)), cu_seqlens_q=Tensor([0, 7, 14]),
        cu_seqlens_ori_kv=Tensor([0, 7, 14]), cu_seqlens_cmp_kv=Tensor([0, 2, 4]), layout_q="TND",
        layout_kv="TND", return_softmax_lse=True, **options,
    )  # fmt: skip
    np.testing.assert_array_equal(packed.asnumpy().reshape(out.shape), out.asnumpy())
    np.testing.assert_array_equal(other.asnumpy().reshape(2, 7, HEADS), lse.asnumpy()[:, 0])
    alone, nothing = sparse_flash_mla(Tensor(query), ori_kv=Tensor(ori), ori_win_left=2)
    assert alone.shape == query.shape and nothing.shape == (0,)


def test_graphs():
    query, ori, cmp = _drawn(0, 1, 7, HEADS, DIM), _drawn(1, 1, 7, 1, DIM), _drawn(2, 1, 2, 1, DIM)

    @ms.jit
    def graph(query, ori, cmp):
        return sparse_flash_mla(query, ori_kv=ori, cmp_kv=cmp, cmp_ratio=3, ori_win_left=2)[0]

    given = tuple(map(Tensor, (query, ori, cmp)))
    want = sparse_flash_mla(given[0], ori_kv=given[1], cmp_kv=given[2], cmp_ratio=3, ori_win_left=2)
    np.testing.assert_array_equal(graph(*given).asnumpy(), want[0].asnumpy())


RIGHT = dict(ori_kv=_drawn(1, 1, 7, 1, DIM))
WRONG = [
    ({"ori_kv": None}, TypeError, "ori_kv must be a Tensor, got None"),
    ({"ori_kv": _drawn(1, 7, 1, DIM)}, ValueError, "ori_kv must be of rank 4"),
    ({"ori_kv": _drawn(1, 1, 7, 2, DIM)}, ValueError, "ori_kv must have one head"),
    ({"ori_mask_mode": 3}, ValueError, "ori_mask_mode must be 4, got 3"),
    ({"cmp_mask_mode": 4}, ValueError, "cmp_mask_mode must be 0 or 3, got 4"),
    ({"layout_kv": "TND"}, ValueError, "layout_kv must be 'BSND'"),
    ({"ori_win_left": -1}, ValueError, "ori_win_left must be >= 0, got -1"),
    ({"cmp_ratio": 2.0}, TypeError, "cmp_ratio must be an int"),
    ({"cmp_residual_kv": np.zeros(1, int)}, ValueError, "cmp_residual_kv must be None without"),
    ({"cu_seqlens_q": np.zeros(2, int)}, ValueError, "cu_seqlens_q must be None with layout"),
]


@pytest.mark.parametrize("given, error, text", WRONG)
def test_wrong_arguments(given, error, text):
    arguments = {**RIGHT, **given}
    arguments = {k: Tensor(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    with pytest.raises(error, match=f"^sparse_flash_mla: {text}"):
        sparse_flash_mla(Tensor(_drawn(0, 1, 7, HEADS, DIM)), **arguments)
