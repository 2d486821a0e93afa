"""The KL loss of an indexer in a network: gradients, what has none, vmap, dtypes, errors."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

import mindspore_nsa
from mindspore_nsa import reference

from .calls import context_mode
from .operators import draw

BOTH = pytest.mark.parametrize("mode", ["pynative", "graph"])
Q, K = draw(2, 12, 4, 16), draw(2, 20, 1, 16)
QI, KI, W = draw(2, 12, 2, 8), draw(2, 20, 1, 8), draw(2, 12, 2)
PICKS, _ = mindspore_nsa.lightning_indexer(QI, KI, W, sparse_count=6)
_, TOP, TOTAL = mindspore_nsa.sparse_flash_attention(Q, K, K, PICKS, 0.25, return_softmax_lse=True)
SPARSE = {"sparse_indices": PICKS, "softmax_max": TOP, "softmax_sum": TOTAL, "scale_value": 0.25}
ARRAYS = {"query": Q, "key": K, "query_index": QI, "key_index": KI, "weights": W, **SPARSE}
ARRAYS = {name: x.asnumpy() if isinstance(x, Tensor) else x for name, x in ARRAYS.items()}


def loss(qi, ki, w):
    return mindspore_nsa.lightning_indexer_kl_loss(Q, K, qi, ki, w, PICKS, TOP, TOTAL, 0.25)


def total_loss(qi, ki, w):
    return mindspore_nsa.lightning_indexer_kl_loss(
        Q, K, qi, ki, w, PICKS, TOP, TOTAL, 0.25, reduction="sum"
    )


def three_times(qi, ki, w):
    return mindspore_nsa.lightning_indexer_kl_loss(
        Q, K, qi, ki, w, PICKS, TOP, TOTAL, 0.25, reduction="sum", coeff=3
    )


def dense_loss(qi, ki, w):
    return mindspore_nsa.lightning_indexer_kl_loss(Q, K, qi, ki, w, None, TOP, TOTAL, 0.25)


LOSSES = pytest.mark.parametrize("loss", [loss, dense_loss], ids=["sparse", "dense"])


def loss_of_all(qi, ki, w, q, k):
    """From picks to loss, as a layer does it."""
    picks, _ = mindspore_nsa.lightning_indexer(qi, ki, w, sparse_count=6)
    out, top, total = mindspore_nsa.sparse_flash_attention(
        q, k, k, picks, 0.25, return_softmax_lse=True
    )
    kl = mindspore_nsa.lightning_indexer_kl_loss(q, k, qi, ki, w, picks, top, total, 0.25)
    return kl, out


@BOTH
def test_gradients_reach_the_indexer_alone(mode):
    expected = reference.sparse_lightning_indexer_grad_kl_loss(**ARRAYS)

    def first(*x):
        return loss_of_all(*x)[0]

    with context_mode(mode):
        value, ours = ms.value_and_grad(first, (0, 1, 2, 3, 4))(QI, KI, W, Q, K)
    np.testing.assert_allclose(value.asnumpy(), expected[3][0] / 24, rtol=1e-5)
    for a, b in zip(ours, expected[:3]):
        np.testing.assert_allclose(a.asnumpy(), b / 24, atol=1e-5 * np.abs(b).max() / 24)
    assert not ours[3].asnumpy().any() and not ours[4].asnumpy().any()


@BOTH
def test_both_losses_together(mode):
    """Each of two losses trains its own part."""

    def both(*x):
        kl, out = loss_of_all(*x)
        return kl + ops.square(out).sum()

    def attention(*x):
        return ops.square(loss_of_all(*x)[1]).sum()

    with context_mode(mode):
        ours = ms.grad(both, (0, 1, 2, 3, 4))(QI, KI, W, Q, K)
        alone = ms.grad(attention, (3, 4))(QI, KI, W, Q, K)
        of_loss = ms.grad(loss, (0, 1, 2))(QI, KI, W)
    for a, b in zip(ours, (*of_loss, *alone), strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
        assert a.asnumpy().any()


@BOTH
def test_dense_gradients(mode):
    """The teacher's statistics are those of dense attention, one float for each head."""
    _, top, total = mindspore_nsa.flash_attention_score(
        Q, K, K, 4, scalar_value=0.25, input_layout="BSND", sparse_mode=3, return_softmax=True
    )
    top, total = (x[:, :, :, 0].reshape(2, 1, 4, 12).swapaxes(2, 3) for x in (top, total))

    def of(qi, ki, w, q, k):
        return mindspore_nsa.lightning_indexer_kl_loss(q, k, qi, ki, w, None, top, total, 0.25)

    indexer = [x.asnumpy() for x in (QI, KI, W)]
    statistics = [x.asnumpy() for x in (top, total)]
    expected = reference.dense_lightning_indexer_grad_kl_loss(
        ARRAYS["query"], ARRAYS["key"], *indexer, *statistics,
        *reference.dense_lightning_indexer_softmax_lse(*indexer), 0.25)  # fmt: skip
    with context_mode(mode):
        value, ours = ms.value_and_grad(of, (0, 1, 2, 3, 4))(QI, KI, W, Q, K)
        stats = mindspore_nsa.dense_lightning_indexer_softmax_lse(QI, KI, W)
        raw = mindspore_nsa.dense_lightning_indexer_grad_kl_loss(
            Q, K, QI, KI, W, top, total, *stats, 0.25
        )
    np.testing.assert_allclose(value.asnumpy(), expected[3][0] / 24, rtol=1e-5)
    for a, b, c in zip(ours, raw, expected[:3]):
        np.testing.assert_allclose(a.asnumpy(), c / 24, atol=1e-5 * np.abs(c).max() / 24)
        np.testing.assert_allclose(b.asnumpy(), c, atol=1e-5 * np.abs(c).max())
    assert not ours[3].asnumpy().any() and not ours[4].asnumpy().any()


@BOTH
def test_reduction_and_coefficient(mode):
    with context_mode(mode):
        total, mean = total_loss(QI, KI, W), loss(QI, KI, W)
        slope, plain = (ms.grad(f)(QI, KI, W).asnumpy() for f in (three_times, total_loss))
    np.testing.assert_allclose(total.asnumpy() / 24, mean.asnumpy(), rtol=1e-6)
    np.testing.assert_allclose(slope, 3 * plain, rtol=1e-6)
    assert mean.shape == () and mean.dtype == ms.float32


@BOTH
@LOSSES
def test_vmap(mode, loss):
    tensors = [ops.stack((x, x * 2)) for x in (QI, KI, W)]
    slope = ms.grad(loss, (0, 1, 2))
    with context_mode(mode):
        ours = (ops.vmap(loss)(*tensors), *ops.vmap(slope)(*tensors))
        each = [
            (loss(*(x[i] for x in tensors)), *slope(*(x[i] for x in tensors))) for i in range(2)
        ]
    for a, *b in zip(ours, *each, strict=True):
        np.testing.assert_array_equal(a.asnumpy(), np.stack([x.asnumpy() for x in b]))


@BOTH
def test_mixed_inputs(mode):
    """Promoted to the widest; every gradient comes back in the dtype of its input."""
    given = [QI.astype(ms.float16), KI.astype(ms.bfloat16), W.astype(ms.float16)]
    wide = [x.astype(ms.float32) for x in given]
    with context_mode(mode):
        slope = ms.grad(loss, (0, 1, 2))
        ours, expected = slope(*given), slope(*wide)
        of_dense = ms.grad(dense_loss, (0, 1, 2))(*given), ms.grad(dense_loss, (0, 1, 2))(*wide)
        raw = mindspore_nsa.sparse_lightning_indexer_grad_kl_loss(Q, K, *given, **SPARSE)
        wide = mindspore_nsa.sparse_lightning_indexer_grad_kl_loss(Q, K, *wide, **SPARSE)
    ours, expected = (*ours, *of_dense[0], *raw[:3]), (*expected, *of_dense[1], *wide[:3])
    for a, b, x in zip(ours, expected, given * 3, strict=True):
        assert a.dtype == x.dtype
        rounded = b.astype(x.dtype).astype(ms.float32).asnumpy()
        np.testing.assert_array_equal(a.astype(ms.float32).asnumpy(), rounded)
    assert raw[3].asnumpy() == wide[3].asnumpy()


@BOTH
@LOSSES
def test_gradients_have_no_gradient(mode, loss):
    def of_gradient(qi):
        return ops.square(ms.grad(loss)(qi, KI, W)).sum()

    def of_raw(qi):
        return mindspore_nsa.sparse_lightning_indexer_grad_kl_loss(Q, K, qi, KI, W, **SPARSE)[3][0]

    def of_statistics(qi):
        return mindspore_nsa.dense_lightning_indexer_softmax_lse(qi, KI, W)[1].sum()

    with context_mode(mode):
        with pytest.raises((ValueError, RuntimeError), match="its gradient has no gradient"):
            ms.grad(of_gradient)(QI).asnumpy()
        with pytest.raises((ValueError, RuntimeError), match="softmax_sum_index have no gradient"):
            ms.grad(of_statistics)(QI).asnumpy()
        with pytest.raises((ValueError, RuntimeError), match="lightning_indexer_kl_loss is the"):
            ms.grad(of_raw)(QI).asnumpy()


class Any(ms.nn.Cell):
    """Both losses."""

    def construct(self, q, k, qi, ki, w, picks, top, total, seq_q, seq_k):
        lists = {"actual_seq_qlen": seq_q, "actual_seq_klen": seq_k}
        sparse = mindspore_nsa.lightning_indexer_kl_loss(
            q, k, qi, ki, w, picks, top, total, 0.25, **lists
        )
        dense = mindspore_nsa.lightning_indexer_kl_loss(
            q, k, qi, ki, w, None, top, total, 0.25, **lists
        )
        return sparse, dense


def test_of_any_length():
    """One graph for all lengths, and for all values of the lists."""
    given = [Q, K, QI, KI, W, PICKS, TOP, TOTAL]
    lists = [Tensor([12, 7], ms.int64), Tensor([20, 13], ms.int64)]
    net = Any()
    net.set_inputs(*(Tensor(shape=[None] * x.ndim, dtype=x.dtype) for x in (*given, *lists)))
    with context_mode("graph"):
        for queries in (12, 5):
            cut = [x[:, :, :queries] if x is TOP or x is TOTAL
                   else x if x is K or x is KI else x[:, :queries] for x in given]  # fmt: skip
            lengths = [ops.minimum(lists[0], queries), lists[1]]
            ours = [x.asnumpy() for x in net(*cut, *lengths)]
            arrays = [x.asnumpy() for x in cut]
            for loss, picks in zip(ours, (arrays[5], None), strict=True):
                exact = reference.lightning_indexer_kl_loss(
                    *arrays[:5], picks, *arrays[6:], 0.25, actual_seq_qlen=lengths[0].asnumpy(),
                    actual_seq_klen=(20, 13))  # fmt: skip
                np.testing.assert_allclose(loss, exact, rtol=1e-5)
        assert len(net.compile_cache) == 1
        with pytest.raises(RuntimeError, match="actual_seq_klen must be at most Sk"):
            net(*given, lists[0], Tensor([20, 21], ms.int64))[0].asnumpy()


@pytest.mark.parametrize("rank_too", [False, True], ids=["shapes", "rank"])
@pytest.mark.parametrize(
    "dtype, count", [(ms.float16, 70_000), (ms.bfloat16, 100), (ms.float32, 0)]
)
def test_the_mean_over_any_number(dtype, count, rank_too):
    """Loss and gradients of an open graph are those of PyNative mode, where the count is known."""
    rng = np.random.default_rng(0)
    shapes = (1, count, 1, 2), (1, count, 1, 2), (1, count, 1)
    qi, ki, w = (Tensor(rng.standard_normal(s).astype(np.float32)).astype(dtype) for s in shapes)
    q, k = qi.copy(), ki.copy()
    picks = mindspore_nsa.lightning_indexer(qi, ki, w, sparse_count=4)[0]
    top, total = mindspore_nsa.sparse_flash_attention(q, k, k, picks, 0.5, return_softmax_lse=True)[
        1:
    ]

    class Mean(ms.nn.Cell):
        def construct(self, qi, ki, w, q, k, picks, top, total):
            return mindspore_nsa.lightning_indexer_kl_loss(q, k, qi, ki, w, picks, top, total, 0.5)

    class Both(ms.nn.Cell):
        def __init__(self):
            super().__init__()
            self.mean = Mean()

        def construct(self, *given):
            return ms.value_and_grad(self.mean, (0, 1, 2))(*given)

    given = qi, ki, w, q, k, picks, top, total
    expected, slopes = Both()(*given)
    net = Both()
    net.set_inputs(
        *(Tensor(shape=None if rank_too else [None] * x.ndim, dtype=x.dtype) for x in given)
    )
    with context_mode("graph"):
        mean, found = net(*given)
    # The count is rounded to float32.
    np.testing.assert_allclose(mean.asnumpy(), expected.asnumpy(), rtol=1e-6)
    assert count == 0 or mean > 0.01
    for ours, its in zip(found, slopes, strict=True):
        ours, its = (x.astype(ms.float32).asnumpy() for x in (ours, its))
        np.testing.assert_allclose(ours, its, rtol=0, atol=1e-6 * np.abs(its).max(initial=0))


WRONG = [
    ({"query": None}, TypeError, "query must be a Tensor"),
    ({"key": K[:, :, :, :8]}, ValueError, "key must be of the head size D of query (16)"),
    ({"query_index": QI[:, :11]}, ValueError, "query_index must be of shape (B, Sq, H, d)"),
    ({"key_index": KI[:, :19]}, ValueError, "key_index must be of shape (B, Sk, N2, d)"),
    ({"key_index": draw(2, 20, 2, 8)}, ValueError, "key_index must be of a head count that div"),
    ({"weights": W[:, :, :1]}, ValueError, "weights must be of shape (B, Sq, H)"),
    ({"weights": None}, TypeError, "weights must be a Tensor"),
    ({"sparse_indices": PICKS[:, :11]}, ValueError, "sparse_indices must be of shape"),
    ({"sparse_indices": PICKS.astype(ms.int64)}, TypeError, "sparse_indices must be of dtype"),
    ({"softmax_max": TOP[:, 0]}, ValueError, "softmax_max must be of shape (B, N2, Sq"),
    ({"softmax_sum": TOTAL[..., :3]}, ValueError,
     "softmax_sum must be of shape (B, N2, Sq, N / N2) ((N2, T1, N / N2) with layout='TND') ="),
    ({"scale_value": None}, TypeError, "scale_value must be a float"),
    ({"query_rope": draw(2, 12, 4, 6)}, ValueError, "key_rope must be given where query_rope is"),
    ({"key_rope": draw(2, 20, 1, 6)}, ValueError, "query_rope must be given where key_rope is"),
    ({"query_rope": draw(2, 12, 4, 5), "key_rope": draw(2, 20, 1, 6)}, ValueError,
     "query_rope must be of shape (B, Sq, N, R)"),
    ({"layout": "BNSD"}, ValueError, "layout must be one of 'BSND', 'TND'"),
    ({"sparse_mode": 2}, ValueError, "sparse_mode must be 0 or 3, got 2"),
    ({"pre_tokens": 1}, ValueError, "pre_tokens must be 2**63 - 1, got 1"),
    ({"actual_seq_qlen": (12, 13)}, ValueError, "must be at most Sq (12), got 13"),
    ({"actual_seq_klen": 20}, TypeError, "actual_seq_klen must be a tuple or list"),
    ({"reduction": "none"}, ValueError, "reduction must be 'mean' or 'sum'"),
    ({"coeff": "1"}, TypeError, "coeff must be a float"),
]  # fmt: skip
TENSORS = {"query": Q, "key": K, "query_index": QI, "key_index": KI, "weights": W}


@pytest.mark.parametrize("changes, error, text", WRONG, ids=[text[:40] for _, _, text in WRONG])
def test_errors(changes, error, text):
    given = {**TENSORS, **SPARSE, **changes}

    class Call(ms.nn.Cell):
        def construct(self, x):
            return mindspore_nsa.lightning_indexer_kl_loss(**given)

    functions = ["lightning_indexer_kl_loss"]
    if "reduction" not in given and "coeff" not in given:
        functions.append("sparse_lightning_indexer_grad_kl_loss")
    for function in functions:
        with pytest.raises(error) as eager:
            getattr(mindspore_nsa, function)(**given)
        first = str(eager.value).strip().splitlines()[0]
        assert first.startswith(f"{function}: ") and text in first and ", got " in first
        if function == "lightning_indexer_kl_loss":
            with context_mode("graph"), pytest.raises(error) as compiled:
                Call()(Tensor(1.0))
            assert str(compiled.value).strip().splitlines()[0] == first


def test_errors_of_the_dense_loss():
    """Its own: statistics of the indexer, and what the indexer alone is checked for."""
    tensors = {**TENSORS, "softmax_max": TOP, "softmax_sum": TOTAL, "scale_value": 0.25}
    top, total = mindspore_nsa.dense_lightning_indexer_softmax_lse(QI, KI, W)
    function = mindspore_nsa.dense_lightning_indexer_grad_kl_loss
    text = r"dense_lightning_indexer_grad_kl_loss: softmax_sum_index must be of shape \(B, heads of"
    with pytest.raises(ValueError, match=text):
        function(**tensors, softmax_max_index=top, softmax_sum_index=total[:, 0])
    with pytest.raises(TypeError, match="softmax_max_index must be a Tensor"):
        function(**tensors, softmax_max_index=None, softmax_sum_index=total)
    for changes, error, text in (
        ({"weights": W[:1]}, ValueError, "weights must be of shape"),
        ({"sparse_mode": 1}, ValueError, "sparse_mode must be 0 or 3, got 1"),
        ({"layout": "TND"}, ValueError, "query_index must be of shape"),
        ({"next_tokens": 0}, ValueError, "next_tokens must be 2"),
    ):
        indexer = {"query_index": QI, "key_index": KI, "weights": W, **changes}
        with pytest.raises(error, match=f"dense_lightning_indexer_softmax_lse: {text}"):
            mindspore_nsa.dense_lightning_indexer_softmax_lse(**indexer)
        given = {**tensors, "sparse_indices": None, **changes}
        with pytest.raises(error, match="lightning_indexer_kl_loss: "):
            mindspore_nsa.lightning_indexer_kl_loss(**given)


@pytest.mark.filterwarnings("ignore:target. graphs that were compiled:UserWarning")
def test_no_ascend_kernel():
    with mindspore_nsa.target("ascend_twin"):
        for function in ("lightning_indexer_kl_loss", "sparse_lightning_indexer_grad_kl_loss"):
            with pytest.raises(ValueError, match=f"{function}: there is no Ascend"):
                getattr(mindspore_nsa, function)(**TENSORS, **SPARSE)
        with pytest.raises(ValueError, match="there is no Ascend kernel"):
            dense_loss(QI, KI, W)
