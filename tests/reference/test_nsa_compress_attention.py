import numpy as np
import pytest

from mindspore_nsa.reference import (
    flash_attention_score_grad,
    nsa_compress_attention,
    nsa_compress_attention_grad,
)
from mindspore_nsa.reference.attention import FLT_MAX
from tests.common.differences import check_gradient

L, S, SELECT = 4, 2, 6
SEQ_Q, SEQ_KV = [0, 9, 10, 16], [0, 5, 5, 8]
OFFSETS = [0, 3, 0, 2]


def problem(seed=0, heads=4, kv_heads=2, dim=3, value_dim=5, count=3):
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((SEQ_Q[-1], heads, dim))
    k, v = (rng.standard_normal((SEQ_KV[-1] + 2, kv_heads, d)) for d in (dim, value_dim))
    k[SEQ_KV[-1] :] = np.nan  # past the last segment: never read
    v[SEQ_KV[-1] :] = np.nan
    options = dict(scale_value=0.7, head_num=heads, compress_block_size=L, compress_stride=S,
                   actual_seq_qlen=SEQ_Q, actual_cmp_seq_kvlen=SEQ_KV)  # fmt: skip
    selection = dict(select_block_size=SELECT, select_block_count=count)
    return rng, q, k, v, options, selection


def expected_row(q, k, v, visible):
    """Output, P, max and sum of one query over the keys of its segment."""
    if not visible.any():
        return np.zeros(v.shape[1]), np.zeros(len(k)), -FLT_MAX, FLT_MAX
    scores = np.where(visible, 0.7 * k @ q, -np.inf)
    e = np.exp(scores - scores.max())
    return e @ v / e.sum(), e / e.sum(), scores.max(), e.sum()


@pytest.mark.parametrize("importance", ["cann", "overlap"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_against_loops(causal, masked, importance):
    rng, q, k, v, options, selection = problem()
    mask = (rng.random((11, 7)) < 0.5) if masked else None
    offsets = OFFSETS if causal else None
    out, topk, row_max, row_sum = nsa_compress_attention(
        q, k, v, **options, **selection, causal=causal, q_offset=offsets, atten_mask=mask,
        importance=importance,
    )  # fmt: skip
    m, n, late = SELECT // S, L // S, importance == "cann"
    for b, start in enumerate([0, *SEQ_Q[:-1]]):
        keys = slice([0, *SEQ_KV][b], SEQ_KV[b])
        count = keys.stop - keys.start
        for t in range(start, SEQ_Q[b]):
            i = t - start
            position = i + (OFFSETS[b] if causal else 0)
            visible = np.ones(count, bool)
            for c in range(count):
                if causal and c * S + L - 1 > position:
                    visible[c] = False
                if masked and mask[i, c]:
                    visible[c] = False
            score = {}
            for h in range(4):
                expected = expected_row(q[t, h], k[keys, h // 2], v[keys, h // 2], visible)
                np.testing.assert_allclose(out[t, h], expected[0], rtol=1e-12, atol=1e-15)
                np.testing.assert_allclose(row_max[t, h], expected[2], rtol=1e-12)
                np.testing.assert_allclose(row_sum[t, h], expected[3], rtol=1e-12)
                if causal:
                    blocks = range(position // SELECT + 1)
                else:
                    # A segment without compressed tokens has no block.
                    blocks = range(-(-(count + (0 if late else n - 1)) // m) if count else 0)
                for j in blocks:
                    for a in range(m):
                        for e in range(n):
                            c = m * (j + 1) - (0 if late else 1) - a - e
                            term = expected[1][c] if 0 <= c < count else 0
                            score[h // 2, j] = score.get((h // 2, j), 0) + term
            for g in range(2):
                ranked = sorted(blocks, key=lambda j, g=g: (-round(score[g, j], 12), j))
                assert topk[t, g].tolist() == (ranked + [-1] * 3)[:3]


def test_init_and_local_blocks_come_first_and_once():
    _, q, k, v, options, selection = problem(count=4)
    topk = nsa_compress_attention(
        q, k, v, **options, **{**selection, "select_block_size": 4}, causal=True, init_blocks=1,
        local_blocks=2, q_offset=[0, 20, 0, 0],
    )[1]  # fmt: skip
    # The first segment with queries stands at positions 20 ... 28, so its own blocks are 5 ... 7.
    for i in range(9):
        own = (20 + i) // 4
        assert topk[i, 0, :3].tolist() == [0, own - 1, own]
    assert topk[9, 0].tolist() == [0, -1, -1, -1]  # position 0: block 0 is first, local and only


def test_list_derived_from_the_queries():
    _, q, k, v, options, selection = problem(1)
    given = {**options, "actual_cmp_seq_kvlen": [0, 3, 3, 5]}
    derived = {**options, "actual_cmp_seq_kvlen": None}
    for got, expected in zip(
        nsa_compress_attention(q, k, v, **derived, **selection, causal=True),
        nsa_compress_attention(q, k, v, **given, **selection, causal=True),
    ):
        np.testing.assert_array_equal(got, expected)
    with pytest.raises(ValueError, match="actual_cmp_seq_kvlen"):
        nsa_compress_attention(q, k, v, **derived, **selection)


def with_gradients(seed, masked, causal=True):
    rng, q, k, v, options, selection = problem(seed)
    options.update(causal=causal, q_offset=OFFSETS if causal else None)
    if masked:
        options["atten_mask"] = rng.random((12, 9)) < 0.3
    out, _, row_max, row_sum = nsa_compress_attention(q, k, v, **options, **selection)
    dy = rng.standard_normal(out.shape)
    gradients = nsa_compress_attention_grad(q, k, v, out, dy, row_max, row_sum, **options)
    return rng, q, k, v, options, selection, out, row_max, row_sum, dy, gradients


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients(masked, causal):
    rng, q, k, v, options, selection, _, _, _, dy, gradients = with_gradients(2, masked, causal)
    used = SEQ_KV[-1]

    def loss():
        return (nsa_compress_attention(q, k, v, **options, **selection)[0] * dy).sum()

    check_gradient(loss, q, gradients[0], rng, places=20)
    check_gradient(loss, k[:used], gradients[1][:used], rng, places=20)
    check_gradient(loss, v[:used], gradients[2][:used], rng, places=20)
    assert not gradients[1][used:].any() and not gradients[2][used:].any()


@pytest.mark.parametrize("masked", [False, True])
def test_flash_attention_score_grad_with_the_compressed_causal_mask(masked):
    _, q, k, v, options, _, out, row_max, row_sum, dy, gradients = with_gradients(3, masked)
    flash = flash_attention_score_grad(
        q, k, v, dy, 4, row_max, row_sum, out, attn_mask=options.get("atten_mask"),
        actual_seq_qlen=SEQ_Q, actual_seq_kvlen=SEQ_KV, scalar_value=0.7, input_layout="TND",
        sparse_mode=int(masked), compress_block_size=L, compress_stride=S, q_offset=OFFSETS,
    )  # fmt: skip
    for got, expected in zip(flash[:3], gradients):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-15)
    assert flash.dpse is None and flash.dsink is None


def test_nan_ranks_lowest_and_stays_in_its_rows():
    _, q, k, v, options, selection = problem(4)
    clean = nsa_compress_attention(q, k, v, **options, **selection)
    q[3, 0] = np.nan
    out, topk, _, _ = nsa_compress_attention(q, k, v, **options, **selection)
    touched = np.zeros(out.shape[:2], bool)
    touched[3, 0] = True
    np.testing.assert_array_equal(np.isnan(out).any(axis=-1), touched)
    np.testing.assert_allclose(out[~touched], clean[0][~touched], rtol=1e-12)
    # All scores of that kv head are NaN: blocks by index.
    assert topk[3, 0].tolist() == [0, 1, -1]
    np.testing.assert_array_equal(topk[3, 1], clean[1][3, 1])
