import numpy as np
import pytest

from mindspore_nsa.reference import nsa_selected_attention, nsa_selected_attention_grad
from mindspore_nsa.reference.attention import FLT_MAX
from tests.common.differences import check_gradient

SELECT = 4
SEQ_Q, SEQ_KV = [0, 5, 5, 8, 10], [0, 11, 12, 12, 19]
OFFSETS = [0, 6, 2, 1, 3]


def problem(seed=0, heads=4, kv_heads=2, dim=3, value_dim=5, count=4):
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((SEQ_Q[-1], heads, dim))
    k = rng.standard_normal((SEQ_KV[-1], kv_heads, dim))
    v = rng.standard_normal((SEQ_KV[-1], kv_heads, value_dim))
    topk = rng.integers(-2, 5, (SEQ_Q[-1], kv_heads, count))
    topk[1, 0] = -1  # a query that selects nothing
    topk[0, 1] = [2, 2, 0, 2]  # duplicates, and the partial last block of the first segment
    topk[3, 0, 0] = 2**31 - 1
    options = dict(scale_value=0.7, head_num=heads, select_block_size=SELECT,
                   select_block_count=count, actual_seq_qlen=SEQ_Q,
                   actual_seq_kvlen=SEQ_KV)  # fmt: skip
    return rng, q, k, v, topk.astype(np.int32), options


def gathered_rows(topk, keys, position):
    """Rows of the segment that one query gathers, with repetition; position None = not causal."""
    rows = []
    for t in topk:
        if t < 0:
            continue
        rows += [r for r in range(int(t) * SELECT, int(t) * SELECT + SELECT) if r < keys]
    return [r for r in rows if position is None or r <= position]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("q_offset", [None, OFFSETS])
def test_against_gathering(causal, q_offset):
    _, q, k, v, topk, options = problem()
    out, row_max, row_sum = nsa_selected_attention(
        q, k, v, topk, causal=causal, q_offset=q_offset, **options
    )
    saw_nothing = 0
    for b, (start, end) in enumerate(zip([0, *SEQ_Q], SEQ_Q)):
        kv_start = [0, *SEQ_KV][b]
        for t in range(start, end):
            for h in range(q.shape[1]):
                position = t - start + (q_offset[b] if q_offset else 0)
                rows = gathered_rows(topk[t, h // 2], SEQ_KV[b] - kv_start,
                                     position if causal else None)  # fmt: skip
                if not rows:
                    saw_nothing += 1
                    assert not out[t, h].any()
                    assert (row_max[t, h] == -FLT_MAX).all() and (row_sum[t, h] == FLT_MAX).all()
                    continue
                rows = kv_start + np.array(rows)
                scores = 0.7 * k[rows, h // 2] @ q[t, h]
                p = np.exp(scores - scores.max())
                np.testing.assert_allclose(out[t, h], p @ v[rows, h // 2] / p.sum(), rtol=1e-12)
                np.testing.assert_allclose(row_max[t, h], scores.max(), rtol=1e-12)
                np.testing.assert_allclose(row_sum[t, h], p.sum(), rtol=1e-12)
    assert saw_nothing >= 3


@pytest.mark.parametrize("causal", [False, True])
def test_gradients(causal):
    rng, q, k, v, topk, options = problem(1)
    options.update(causal=causal, q_offset=OFFSETS)
    out, row_max, row_sum = nsa_selected_attention(q, k, v, topk, **options)
    dy = rng.standard_normal(out.shape)
    gradients = nsa_selected_attention_grad(q, k, v, out, dy, row_max, row_sum, topk, **options)

    def loss():
        return (nsa_selected_attention(q, k, v, topk, **options)[0] * dy).sum()

    for x, gradient in zip((q, k, v), gradients):
        check_gradient(loss, x, gradient, rng, places=20)


def test_rows_that_nobody_selects_get_exactly_zero():
    _, q, k, v, topk, options = problem(2)
    topk[:] = 1
    out, row_max, row_sum = nsa_selected_attention(q, k, v, topk, **options)
    _, dk, dv = nsa_selected_attention_grad(q, k, v, out, out, row_max, row_sum, topk, **options)
    touched = np.zeros(SEQ_KV[-1], bool)
    for start, end, queries in zip([0, *SEQ_KV], SEQ_KV, np.diff([0, *SEQ_Q])):
        if queries:
            touched[start + SELECT : min(start + 2 * SELECT, end)] = True
    assert not dk[~touched].any() and not dv[~touched].any()
    assert dv[touched].all()


def test_a_mask_means_causal_and_is_not_read():
    _, q, k, v, topk, options = problem(3)
    mask = np.zeros((2, 2), bool)
    for got, expected in zip(
        nsa_selected_attention(q, k, v, topk, atten_mask=mask, **options),
        nsa_selected_attention(q, k, v, topk, causal=True, **options),
    ):
        np.testing.assert_array_equal(got, expected)


def test_the_order_of_indices_does_not_matter():
    rng, q, k, v, topk, options = problem(4)
    shuffled = rng.permuted(topk, axis=-1)
    for got, expected in zip(
        nsa_selected_attention(q, k, v, shuffled, **options),
        nsa_selected_attention(q, k, v, topk, **options),
    ):
        np.testing.assert_array_equal(got, expected)


def test_nan_touches_only_the_rows_that_see_it():
    _, q, k, v, topk, options = problem(5)
    clean = nsa_selected_attention(q, k, v, topk, **options)[0]
    v[0, 0] = np.nan
    touched = np.zeros(q.shape[:2], bool)
    touched[:5, :2] = (topk[:5, :1] == 0).any(axis=-1)
    out = nsa_selected_attention(q, k, v, topk, **options)[0]
    assert touched.any() and not touched.all()
    np.testing.assert_array_equal(np.isnan(out).all(axis=-1), touched)
    np.testing.assert_allclose(out[~touched], clean[~touched], rtol=1e-12)
