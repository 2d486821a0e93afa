"""The indexer and its KL gradients by the names of CANN's second operators, in float64 NumPy."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa import reference
from mindspore_nsa.ops import lightning_indexer_v2, sparse_lightning_indexer_kl_loss_grad

HEADS, DIM, COUNT, RATIO = 3, 8, 4, 2
# Queries, keys and tokens after the last key of every segment, for keys of two tokens.
SEGMENTS = [(7, 3, 1), (1, 0, 1), (4, 6, 0), (2, 2, 1)]
NAMES = ("query", "key", "weights")


def _drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _sums(numbers):
    return np.concatenate(([0], np.cumsum(numbers)))


def _packed():
    queries, keys, residual = zip(*SEGMENTS)
    arrays = (
        _drawn(0, sum(queries), HEADS, DIM),
        _drawn(1, sum(keys), 1, DIM),
        _drawn(2, sum(queries), HEADS),
    )
    lists = dict(cu_seqlens_q=_sums(queries), cu_seqlens_k=_sums(keys), cmp_residual_k=residual)
    lists = {name: Tensor(np.asarray(values, np.int64)) for name, values in lists.items()}
    return arrays, {**lists, "layout_q": "TND", "layout_k": "TND", "cmp_ratio": RATIO}


def _both_modes(function, arrays, error=1e-5):
    """Results of PyNative mode, which a graph has too."""
    given = tuple(map(Tensor, arrays))
    found = [x.asnumpy() for x in function(*given)]
    for mine, theirs in zip(ms.jit(function)(*given), found, strict=True):
        np.testing.assert_allclose(mine.asnumpy(), theirs, atol=error)
    return found


@pytest.mark.parametrize("mode", [0, 3])
def test_indexer_of_packed_segments(mode):
    arrays, lists = _packed()
    slope = np.where(np.arange(COUNT) < 2, 1.0, -0.5).astype(np.float32)

    def ours(*given):
        return lightning_indexer_v2(*given, COUNT, mask_mode=mode, return_value=True, **lists)

    def loss(*given):
        values = ours(*given)[1]
        return (
            ms.ops.where(values > -1e30, values, ms.ops.zeros_like(values)) * Tensor(slope)
        ).sum()

    indices, values = _both_modes(ours, arrays)
    wanted = dict(
        actual_seq_lengths_query=lists["cu_seqlens_q"].asnumpy()[1:],
        actual_seq_lengths_key=lists["cu_seqlens_k"].asnumpy()[1:],
        layout_query="TND",
        layout_key="TND",
    )
    found, scores = reference.lightning_indexer(
        *arrays, sparse_count=COUNT, sparse_mode=mode, compress_ratio=RATIO, return_value=True,
        compress_residual=lists["cmp_residual_k"].asnumpy(), **wanted,
    )  # fmt: skip
    np.testing.assert_array_equal(indices, found)
    np.testing.assert_allclose(values, scores, atol=1e-5)
    gradients = ms.grad(loss, (0, 1, 2))(*map(Tensor, arrays))
    right = reference.lightning_indexer_grad(
        *arrays[:2], np.broadcast_to(slope, found.shape), found, arrays[2], **wanted
    )
    for mine, theirs in zip(gradients, right, strict=True):
        np.testing.assert_allclose(mine.asnumpy(), theirs, atol=1e-5)


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
def test_scores_are_float32(dtype):
    query, key = (Tensor(_drawn(i, 2, 5, n, DIM)).astype(dtype) for i, n in ((0, HEADS), (1, 1)))
    weights, used = _drawn(2, 2, 5, HEADS), Tensor(np.int64([5, 3]))
    indices, values = lightning_indexer_v2(
        query, key, Tensor(weights), 2, seqused_q=used, seqused_k=used, return_value=True
    )
    wide = query.float().asnumpy(), key.float().asnumpy(), weights
    found, scores = reference.lightning_indexer(
        *wide, sparse_count=2, sparse_mode=0, return_value=True,
        actual_seq_lengths_query=(5, 3), actual_seq_lengths_key=(5, 3),
    )  # fmt: skip
    assert values.dtype == ms.float32
    np.testing.assert_array_equal(indices.asnumpy(), found)
    np.testing.assert_allclose(values.asnumpy(), scores, atol=1e-5)


def test_pages():
    query, key, weights = _drawn(0, 1, 5, HEADS, DIM), _drawn(1, 3, 2, 1, DIM), _drawn(2, 1, 5, 3)
    table = np.int32([[2, 0, 1]])
    got, nothing = lightning_indexer_v2(
        Tensor(query), Tensor(key), Tensor(weights), 3, block_table=Tensor(table),
        seqused_k=Tensor(np.int64([5])), layout_k="PA_BSND",
    )  # fmt: skip
    whole = key[table[0]].reshape(1, 6, 1, DIM)[:, :5]
    want, _ = reference.lightning_indexer(query, whole, weights, sparse_count=3, sparse_mode=0)
    np.testing.assert_array_equal(got.asnumpy(), want)
    assert nothing.shape == (0,)


def _seen(mode):
    """For every query the rows of the keys that it sees."""
    first_key = 0
    for queries, keys, residual in SEGMENTS:
        for i in range(queries):
            n = (i + 1 + keys * RATIO + residual - queries) // RATIO if mode == 3 else keys
            yield first_key + np.arange(max(0, min(n, keys)))
        first_key += keys


def _kl_gradients(query, key, weights, picks, teacher, mode):
    """Gradients of sum p (log p - log y) and y, one query and pick after the other."""
    query, key, weights = (x.astype(np.float64) for x in (query, key, weights))
    dq, dk, dw, y = (np.zeros(s) for s in (query.shape, key.shape, weights.shape, picks.shape))
    for i, seen in enumerate(_seen(mode)):
        taken = [j for j, pick in enumerate(picks[i, 0]) if 0 <= pick < len(seen)]
        rows = seen[picks[i, 0, taken]]
        products = key[rows, 0] @ query[i].T
        scores = np.maximum(products, 0) @ weights[i]
        weight = np.exp(scores - scores.max(initial=-1e9))
        y[i, 0, taken] = weight / weight.sum()
        p = teacher[i, 0, taken].astype(np.float64)
        for j, row in enumerate(rows):
            slope = y[i, 0, taken[j]] * p.sum() - p[j]
            dw[i] += slope * np.maximum(products[j], 0)
            of_products = slope * weights[i] * (products[j] > 0)
            dq[i] += of_products[:, None] * key[row, 0]
            dk[row, 0] += of_products @ query[i]
    return dq, dk, dw, y


@pytest.mark.parametrize("mode", [0, 3])
def test_kl_gradients_of_packed_segments(mode):
    arrays, lists = _packed()
    rng = np.random.default_rng(3)
    picks = rng.integers(-1, 4, (len(arrays[0]), 1, COUNT)).astype(np.int32)
    teacher = rng.uniform(0, 0.4, picks.shape).astype(np.float32)

    def ours(*given):
        return sparse_lightning_indexer_kl_loss_grad(*given, mask_mode=mode, **lists)

    got = _both_modes(ours, (*arrays, picks, teacher))
    for mine, theirs in zip(got, _kl_gradients(*arrays, picks, teacher, mode), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)


def test_kl_gradients_are_those_of_the_loss():
    """By finite differences of the divergence itself."""
    query, key, weights = arrays = (
        _drawn(0, 1, 4, HEADS, DIM),
        _drawn(1, 1, 4, 1, DIM),
        _drawn(2, 1, 4, 3),
    )
    picks = np.int32([[[[0, -1]], [[0, 1]], [[2, 0]], [[1, 3]]]])
    teacher = np.random.default_rng(3).uniform(0.1, 0.4, picks.shape).astype(np.float32)
    got = sparse_lightning_indexer_kl_loss_grad(
        *map(Tensor, (*arrays, picks, teacher)), layout_q="BSND", layout_k="BSND"
    )

    def loss(query, key, weights):
        total = 0.0
        for i in range(4):
            taken = picks[0, i, 0] >= 0
            scores = np.maximum(key[0, picks[0, i, 0, taken], 0] @ query[0, i].T, 0) @ weights[0, i]
            p = teacher[0, i, 0, taken]
            total += (p * (np.log(p) - scores + np.log(np.exp(scores).sum()))).sum()
        return total

    rng = np.random.default_rng(4)
    for number in range(3):
        by = [np.zeros(x.shape) for x in arrays]
        by[number] = 1e-6 * rng.standard_normal(arrays[number].shape)
        up, down = (loss(*(x + s * d for x, d in zip(arrays, by))) for s in (1, -1))
        slope = (got[number].asnumpy() * by[number]).sum()
        assert abs((up - down) / 2 - slope) < 1e-4 * abs(slope), NAMES[number]


def test_rows_in_use():
    """Queries and keys after those in use count for nothing."""
    arrays = _drawn(0, 2, 5, HEADS, DIM), _drawn(1, 2, 5, 1, DIM), _drawn(2, 2, 5, HEADS)
    picks = np.random.default_rng(3).integers(-1, 5, (2, 5, 1, 3)).astype(np.int32)
    teacher = np.full(picks.shape, 0.3, np.float32)
    given = (*arrays, picks, teacher)
    layouts = dict(layout_q="BSND", layout_k="BSND")
    used = Tensor(np.int64([5, 3]))
    whole = sparse_lightning_indexer_kl_loss_grad(
        *map(Tensor, given), seqused_q=used, seqused_k=used, **layouts
    )
    alone = sparse_lightning_indexer_kl_loss_grad(
        *(Tensor(x[1:, :3].copy()) for x in given), **layouts
    )
    for mine, theirs in zip(whole, alone, strict=True):
        np.testing.assert_allclose(mine.asnumpy()[1:, :3], theirs.asnumpy(), atol=1e-6)
        assert not mine.asnumpy()[1:, 3:].any()


def test_results_that_are_gradients_have_none():
    arrays, lists = _packed()
    picks = np.zeros((len(arrays[0]), 1, COUNT), np.int32)
    given = tuple(map(Tensor, (*arrays, picks, np.full(picks.shape, 0.2, np.float32))))

    def result(number):
        def taken(*given):
            return sparse_lightning_indexer_kl_loss_grad(*given, **lists)[number]

        return taken

    for number in range(4):
        with pytest.raises(
            (RuntimeError, ValueError), match="^sparse_lightning_indexer_kl_loss_grad: its"
        ):
            ms.grad(result(number))(*given)


WRONG = [
    ({"topk": 0}, ValueError, "topk must be >= 1, got 0"),
    ({"topk": 2.0}, TypeError, "topk must be an int"),
    ({"cmp_ratio": 0}, ValueError, "cmp_ratio must be >= 1"),
    ({"mask_mode": 4}, ValueError, "mask_mode must be 0 or 3, got 4"),
    ({"layout_q": "BNSD"}, ValueError, "layout_q must be 'BSND' or 'TND'"),
    ({"layout_k": "BSND"}, ValueError, "layout_k must be 'TND' or 'PA_BSND'"),
    ({"metadata": 1}, ValueError, "metadata must be None, it is reserved"),
    ({"max_seqlen_q": 3}, ValueError, "max_seqlen_q must be -1"),
    ({"return_value": 2}, TypeError, "return_value must be a bool"),
    ({"seqused_q": np.int64([1])}, ValueError, "seqused_q must be None with layout 'TND'"),
    ({"cu_seqlens_q": None}, TypeError, "cu_seqlens_q must be a Tensor, got None"),
    ({"cu_seqlens_k": np.int64([0, 3, 12])}, ValueError, "cu_seqlens_k must be prefix sums"),
    ({"cu_seqlens_k": np.int64([3, 5, 11])}, ValueError, "cu_seqlens_k must be prefix sums that"),
]
_ONLY_OF_INDEXER = ("topk", "max_seqlen_q", "return_value", "layout_q", "layout_k")
WRONG_KL = [
    *((given, *rest) for given, *rest in WRONG if not set(given) & set(_ONLY_OF_INDEXER)),
    ({"layout_k": "BSND"}, ValueError, "layout_k must be 'TND', got 'BSND'"),
    ({"sparse_indices": np.zeros((13, 1, 4), np.int32)}, ValueError, "sparse_indices must be of"),
    ({"sparse_indices": np.zeros((14, 1, 4))}, TypeError, "sparse_indices must be of dtype int32"),
    ({"attn_softmax_l1_norm": _drawn(0, 14, 1, 3)}, ValueError, "attn_softmax_l1_norm must be of"),
    ({"key": _drawn(0, 11, 3, DIM)}, ValueError, "key must have one head"),
    ({"weights": _drawn(0, 14, 2)}, ValueError, "weights must be of shape"),
]


def _refused(function, arguments, error, text):
    given = {k: Tensor(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    with pytest.raises(error, match=f"^{function.__name__}: {text}"):
        function(**given)


@pytest.mark.parametrize("wrong, error, text", WRONG)
def test_wrong_arguments_of_the_indexer(wrong, error, text):
    arrays, lists = _packed()
    right = {**dict(zip(NAMES, arrays)), "topk": 2, **lists}
    _refused(lightning_indexer_v2, {**right, **wrong}, error, text)


@pytest.mark.parametrize("wrong, error, text", WRONG_KL)
def test_wrong_arguments_of_the_gradients(wrong, error, text):
    arrays, lists = _packed()
    picks = np.zeros((len(arrays[0]), 1, COUNT), np.int32)
    right = {**dict(zip(NAMES, arrays)), "sparse_indices": picks, **lists}
    right["attn_softmax_l1_norm"] = picks.astype(np.float32)
    _refused(sparse_lightning_indexer_kl_loss_grad, {**right, **wrong}, error, text)


def test_lengths_in_use_are_checked():
    query, key, weights = _drawn(0, 2, 5, HEADS, DIM), _drawn(1, 2, 5, 1, DIM), _drawn(2, 2, 5, 3)
    right = dict(query=query, key=key, weights=weights, topk=2)
    for used, text in (
        ([6, 1], r"seqused_k must be in \[0, 5\]"),
        ([1], "seqused_k must be of shape"),
    ):
        _refused(lightning_indexer_v2, {**right, "seqused_k": np.int64(used)}, ValueError, text)
