"""The composition of a window, compressed keys and a sink equals one dense softmax."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from mindspore_nsa.ops import _picked, sparse_flash_mla

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
    """MindSpore's operators give it on whole float64 matrices, with log-sum-exp and weights."""
    rows = ops.concat((keys, entries))[:, 0]
    seen = Tensor(np.concatenate([window, counts], 1).astype(np.float64))
    scores = ops.matmul(ops.transpose(query, (1, 0, 2)), ops.transpose(rows, (1, 0))) * SCALE
    weights = ops.exp(scores) * seen
    total = weights.sum(-1, keepdims=True) + ops.exp(sinks).reshape(-1, 1, 1)
    out = ops.transpose(ops.matmul(weights / total, rows), (1, 0, 2))
    return out, ops.log(total)[..., 0], ops.exp(scores) / total


def _of_picks(weights, picks, counts):
    """Weights [T, keys + entries] of picks [T, 1, K]; 0 for those that do not count."""
    found, keys = np.zeros(picks.shape), weights.shape[1] - counts.shape[1]
    ends = np.cumsum([s[0] for s in SEGMENTS])
    firsts = np.cumsum([0, *(s[2] for s in SEGMENTS)])
    for (i, _, k), pick in np.ndenumerate(picks):
        segment = np.searchsorted(ends, i, side="right")
        if 0 <= pick < SEGMENTS[segment][2] and counts[i, firsts[segment] + pick]:
            found[i, 0, k] = weights[i, keys + firsts[segment] + pick]
    return found


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
    slope, chosen = _drawn(5, *query.shape), None if picks is None else Tensor(picks)
    of_lse = _drawn(6, *query.shape[:2])

    def ours(query, ori, cmp, sinks):
        out, lse, mass = sparse_flash_mla(
            query, ori_kv=ori, cmp_kv=cmp, cmp_sparse_indices=chosen,
            cu_seqlens_q=_sums(queries), cu_seqlens_ori_kv=_sums(keys),
            cu_seqlens_cmp_kv=_sums(compressed), cmp_residual_kv=Tensor(residual), sinks=sinks,
            softmax_scale=SCALE, cmp_ratio=case["ratio"], ori_win_left=case["left"],
            ori_win_right=case["right"], cmp_mask_mode=0 if case["every"] else 3, layout_q="TND",
            layout_kv="TND", return_softmax_lse=True, return_softmax_l1=picks is not None,
        )  # fmt: skip
        loss = (out * Tensor(slope)).sum() + (lse[0] * Tensor(of_lse)).sum()
        return loss, out, lse, mass

    def plain(query, ori, cmp, sinks):
        out, lse, weights = _dense(query, ori, cmp, sinks, window, counts)
        loss = (out * Tensor(slope, ms.float64)).sum()
        return loss + (lse * Tensor(of_lse.T, ms.float64)).sum(), out, lse, weights

    given = tuple(map(Tensor, (query, ori, cmp, sinks)))
    wide = [x.astype(ms.float64) for x in given]
    (_, out, lse, mass), got = ms.value_and_grad(ours, (0, 1, 2, 3), has_aux=True)(*given)
    (_, want, sums, weights), right = ms.value_and_grad(plain, (0, 1, 2, 3), has_aux=True)(*wide)
    np.testing.assert_allclose(out.asnumpy(), want.asnumpy(), atol=2e-6)
    np.testing.assert_allclose(lse.asnumpy()[0].T, sums.asnumpy(), atol=1e-5)
    if picks is None:
        assert mass.shape == (0,)
    else:
        mean = weights.asnumpy().mean(0)
        np.testing.assert_allclose(mass.asnumpy(), _of_picks(mean, picks, counts), atol=2e-6)
    for mine, theirs in zip(got, right, strict=True):
        np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), atol=2e-5)


def test_rows_are_segments():
    query, ori, cmp = _drawn(0, 2, 7, HEADS, DIM), _drawn(1, 2, 7, 1, DIM), _drawn(2, 2, 2, 1, DIM)
    residual = Tensor([1, 1])
    options = dict(softmax_scale=SCALE, cmp_ratio=3, ori_win_left=2, cmp_residual_kv=residual)
    both = dict(ori_kv=Tensor(ori), cmp_kv=Tensor(cmp), return_softmax_lse=True, **options)
    picks = np.random.default_rng(4).integers(-1, 2, (2, 7, 1, 2)).astype(np.int32)
    both.update(cmp_sparse_indices=Tensor(picks), return_softmax_l1=True)
    out, lse, mass = sparse_flash_mla(Tensor(query), **both)
    assert mass.shape == picks.shape
    assert out.shape == query.shape and lse.shape == (2, 1, 7, HEADS)
    packed, other, found = sparse_flash_mla(
        Tensor(query.reshape(14, HEADS, DIM)), ori_kv=Tensor(ori.reshape(14, 1, DIM)),
        cmp_kv=Tensor(cmp.reshape(4, 1, DIM)), cu_seqlens_q=Tensor([0, 7, 14]),
        cu_seqlens_ori_kv=Tensor([0, 7, 14]), cu_seqlens_cmp_kv=Tensor([0, 2, 4]), layout_q="TND",
        layout_kv="TND", return_softmax_lse=True, return_softmax_l1=True,
        cmp_sparse_indices=Tensor(picks.reshape(14, 1, 2)), **options,
    )  # fmt: skip
    np.testing.assert_array_equal(packed.asnumpy().reshape(out.shape), out.asnumpy())
    np.testing.assert_array_equal(other.asnumpy().reshape(2, 7, HEADS), lse.asnumpy()[:, 0])
    np.testing.assert_array_equal(found.asnumpy().reshape(mass.shape), mass.asnumpy())
    alone, nothing, none = sparse_flash_mla(Tensor(query), ori_kv=Tensor(ori), ori_win_left=2)
    assert alone.shape == query.shape and nothing.shape == none.shape == (0,)


def test_pieces_of_the_queries(monkeypatch):
    # Five queries of 3 picks make a piece.
    monkeypatch.setattr(_picked, "_PIECE", 4 * 3 * (DIM + 2 * HEADS) * 5)
    query, rows, lse = _drawn(0, 37, HEADS, DIM), _drawn(1, 9, DIM), _drawn(2, 37, HEADS)
    picks = np.random.default_rng(3).integers(-1, 9, (37, 3)).astype(np.int32)
    given = tuple(map(Tensor, (query, rows, lse)))
    assert len(_picked.pieces_of(given[0], Tensor(picks), "")[1]) == 8
    products = np.einsum("thd,tkd->thk", query, rows[np.maximum(picks, 0)], dtype=np.float64)
    want = np.where(picks >= 0, np.exp(0.5 * products - lse[..., None]).mean(1), 0)
    got = _picked.attention_mass(*given[:2], Tensor(picks), given[2], 0.5, "")
    np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-5)
    want = (np.maximum(products, 0) * lse[..., None]).sum(1)
    got = _picked.index_scores(*given[:2], given[2], Tensor(picks), "").asnumpy()
    np.testing.assert_allclose(got[picks >= 0], want[picks >= 0], atol=1e-5)


def test_probabilities_have_no_gradient():
    query, ori, cmp = (Tensor(_drawn(i, 1, 7, 1, DIM)) for i in range(3))
    picks = Tensor(np.zeros((1, 7, 1, 2), np.int32))

    def mass(query, ori, cmp):
        return sparse_flash_mla(
            query, ori_kv=ori, cmp_kv=cmp, cmp_sparse_indices=picks, return_softmax_l1=True
        )[2]

    for argument in range(3):
        with pytest.raises(ValueError, match="cmp_softmax_l1_norm has no gradient"):
            ms.grad(mass, argument)(query, ori, cmp)[0].asnumpy()
    fixed = ms.grad(lambda *given: mass(*map(ops.stop_gradient, given)) * given[0][..., :1])
    assert fixed(query, ori, cmp).shape == query.shape


def test_graphs():
    query, ori, cmp = _drawn(0, 1, 7, HEADS, DIM), _drawn(1, 1, 7, 1, DIM), _drawn(2, 1, 2, 1, DIM)

    picks = Tensor(np.random.default_rng(4).integers(-1, 2, (1, 7, 1, 2)).astype(np.int32))

    def every(query, ori, cmp):
        return sparse_flash_mla(
            query, ori_kv=ori, cmp_kv=cmp, cmp_sparse_indices=picks, cmp_ratio=3, ori_win_left=2,
            return_softmax_lse=True, return_softmax_l1=True,
        )  # fmt: skip

    def loss(query, ori, cmp):
        out, lse, _ = every(query, ori, cmp)
        return out.sum() + lse.sum()

    given = tuple(map(Tensor, (query, ori, cmp)))
    for function in (every, ms.grad(loss, (0, 1, 2))):
        for mine, theirs in zip(ms.jit(function)(*given), function(*given), strict=True):
            np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), atol=1e-6)


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
    ({"cmp_kv": _drawn(1, 1, 7, 2, DIM)}, ValueError, "cmp_kv must have one head"),
    ({"return_softmax_l1": True}, ValueError, "return_softmax_l1 must be False without cmp_sparse"),
    ({"return_softmax_l1": 1}, TypeError, "return_softmax_l1 must be a bool"),
]
PACKED = dict(
    query=_drawn(0, 7, HEADS, DIM),
    ori_kv=_drawn(1, 7, 1, DIM),
    cu_seqlens_q=np.array([0, 7]),
    cu_seqlens_ori_kv=np.array([0, 7]),
    layout_q="TND",
    layout_kv="TND",
)
WRONG_SUMS = [
    ([7], "cu_seqlens_q must hold a 0 and the end of at least one segment"),
    ([1, 7], "cu_seqlens_q must be prefix sums that begin with 0"),
    ([0, 5, 4], "cu_seqlens_q must be prefix sums that begin with 0, do not decrease"),
    ([0, 8], "end at most at the 7 tokens of query, got"),
]


@pytest.mark.parametrize("given, error, text", WRONG)
def test_wrong_arguments(given, error, text):
    arguments = {**RIGHT, **given}
    arguments = {k: Tensor(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    with pytest.raises(error, match=f"^sparse_flash_mla: {text}"):
        sparse_flash_mla(Tensor(_drawn(0, 1, 7, HEADS, DIM)), **arguments)


@pytest.mark.parametrize("sums, text", WRONG_SUMS)
def test_wrong_prefix_sums(sums, text):
    arguments = {**PACKED, "cu_seqlens_q": np.array(sums)}
    arguments = {k: Tensor(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    with pytest.raises(ValueError, match=f"^sparse_flash_mla: .*{text}"):
        sparse_flash_mla(arguments.pop("query"), **arguments)
