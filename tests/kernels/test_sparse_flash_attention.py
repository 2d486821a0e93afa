"""SparseFlashAttention: against other attentions, its order of additions, memory and gradient."""

import numpy as np
import pytest

from mindspore_nsa import _native, reference
from tests.common.cases import make_case

NAMES = [spec["name"] for spec in _native.schema("SparseFlashAttention")["inputs"]]


def attend(query, key, value, indices, scale=0.25, **more):
    given = {"query": query, "key": key, "value": value, "sparse_indices": indices, **more}
    attrs = {name: x for name, x in more.items() if name not in NAMES}
    inputs = [given.get(name) for name in NAMES]
    return _native.run("SparseFlashAttention", inputs, {"scale_value": scale, **attrs})


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


Q, K, V = draw(0, 1, 20, 6, 16), draw(1, 1, 50, 2, 16), draw(2, 1, 50, 2, 12)


def test_all_tokens_are_dense_attention(isa):
    every = np.broadcast_to(np.arange(50, dtype=np.int32), (1, 20, 2, 50)).copy()
    out, top, total = attend(Q, K, V, every, return_softmax_lse=1)
    dense, dense_max, dense_sum = reference.flash_attention_score(
        Q, K, V, 6, scalar_value=0.25, input_layout="BSND", sparse_mode=3
    )
    np.testing.assert_allclose(out, dense, atol=2e-6)
    for ours, theirs in ((top, dense_max), (total, dense_sum)):
        ours = ours.swapaxes(2, 3).reshape(1, 6, 20)  # [B, N2, Sq, G] as [B, N, Sq]
        np.testing.assert_allclose(ours, theirs[..., 0], rtol=1e-5)


def test_blocks_are_selected_attention(isa):
    """With blocks, the operator of NSA is another definition."""
    rng = np.random.default_rng(3)
    indices = rng.integers(-1, 8, (1, 20, 2, 5)).astype(np.int32)
    out, _, _ = attend(Q, K, V, indices, sparse_block_size=8)
    lists = {"actual_seq_qlen": [20], "actual_seq_kvlen": [50], "q_offset": [30]}
    other = reference.nsa_selected_attention(
        Q[0], K[0], V[0], indices[0], 0.25, 6, 8, 5, causal=True, **lists)[0]  # fmt: skip
    np.testing.assert_allclose(out[0], other, atol=2e-6)


def test_the_order_of_indices_changes_no_bit(isa):
    rng = np.random.default_rng(4)
    indices = rng.integers(-1, 52, (1, 20, 2, 200)).astype(np.int32)
    mixed = np.ascontiguousarray(rng.permuted(indices, axis=-1))
    for ours, theirs in zip(
        attend(Q, K, V, indices, return_softmax_lse=1),
        attend(Q, K, V, mixed, return_softmax_lse=1),
        strict=True,
    ):
        assert ours.tobytes() == theirs.tobytes()


def test_what_contributes_nothing(isa):
    """-1, and what is past the end or not visible yet; a token named twice counts twice."""

    def of(*picks):
        return attend(Q[:, :1], K[:, :10], V[:, :10], np.tile(np.int32(picks), (1, 1, 2, 1)))[0]

    alone = of(3, 5, -1, -1)
    assert alone.tobytes() == of(-1, 5, 10, 3).tobytes() == of(2**31 - 1, 3, -7, 5).tobytes()
    assert np.abs(of(3, 5, 5, -1) - alone).max() > 1e-3
    assert not of(-1, -1, -1, -1).any()
    # The first of five queries sees six of ten keys.
    picks = np.tile(np.int32([3, 8]), (1, 5, 2, 1))
    out, top, total = attend(Q[:, :5], K[:, :10], V[:, :10], picks, return_softmax_lse=1)
    np.testing.assert_allclose(out[0, 0, :3], np.tile(V[0, 3, 0], (3, 1)), rtol=1e-6)
    empty = attend(Q[:, :1], K[:, :10], V[:, :10], picks[:, :1] * 0 - 1, return_softmax_lse=1)
    assert (empty[1] == -np.finfo(np.float32).max).all()
    assert (empty[2] == np.finfo(np.float32).max).all()


def test_parts_of_the_queries_are_the_whole(isa):
    rng = np.random.default_rng(5)
    indices = rng.integers(0, 50, (1, 20, 2, 30)).astype(np.int32)
    whole, _, _ = attend(Q, K, V, indices)
    first, _, _ = attend(Q[:, :7], K[:, :37], V[:, :37], indices[:, :7].copy())
    last, _, _ = attend(Q[:, 7:], K, V, indices[:, 7:].copy())
    np.testing.assert_array_equal(np.concatenate((first, last), axis=1), whole)


def test_pages_are_the_keys_in_order(isa):
    rng = np.random.default_rng(6)
    pages = rng.standard_normal((7, 16, 2, 16), np.float32)
    table = np.array([[4, 0, 6]], np.int32)
    indices = rng.integers(-1, 13, (1, 20, 2, 6)).astype(np.int32)
    lengths = np.array([45], np.int64)
    paged, _, _ = attend(
        Q, pages, pages, indices, sparse_block_size=4, layout_kv="PA_BSND", block_table=table,
        actual_seq_lengths_kv=lengths)  # fmt: skip
    key = pages[table].reshape(1, 48, 2, 16)
    plain, _, _ = attend(Q, key, key, indices, sparse_block_size=4, actual_seq_lengths_kv=lengths)
    np.testing.assert_array_equal(paged, plain)


@pytest.mark.parametrize("op", ["SparseFlashAttention", "SparseFlashAttentionGrad"])
def test_threads(op):
    for seed in range(20):
        case = make_case(seed, op)
        one, many = (_native.run(case.op, case.inputs, case.attrs, num_threads=n) for n in (1, 16))
        for a, b in zip(one, many, strict=True):
            a, b = (x[1] if isinstance(x, tuple) else x for x in (a, b))
            assert a.tobytes() == b.tobytes(), case


@pytest.mark.parametrize("count, width", [(16384, 8), (64, 136)])
def test_sums_of_keys(count, width):
    """Tokens for two waves, named often; and few, whose rows have more columns than a work item."""
    queries, keys, heads, scale = 40, 2500, 3, 0.25
    query, dout = draw(9, 1, queries, heads, width), draw(10, 1, queries, heads, width)
    key, value = draw(11, 1, keys, 1, width), draw(12, 1, keys, 1, width)
    picks = np.random.default_rng(13).integers(0, keys, (1, queries, 1, count)).astype(np.int32)
    times = np.zeros((queries, keys))
    np.add.at(times, (np.arange(queries)[:, None], picks[0, :, 0]), 1)
    q, dy, k, v = (np.float64(x) for x in (query[0], dout[0], key[0, :, 0], value[0, :, 0]))
    p = times * np.exp(scale * np.einsum("qhd,kd->hqk", q, k))
    p /= p.sum(-1, keepdims=True)
    dp = np.einsum("qhd,kd->hqk", dy, v)
    ds = scale * p * (dp - (dp * p).sum(-1, keepdims=True))
    out = np.einsum("hqk,kd->qhd", p, v)[None].astype(np.float32)
    expected = (
        np.einsum("hqk,kd->qhd", ds, k),
        np.einsum("hqk,qhd->kd", ds, q),
        np.einsum("hqk,qhd->kd", p, dy),
    )
    given = {"query": query, "key": key, "value": value, "sparse_indices": picks,
             "attention_out": out, "attention_out_grad": dout}  # fmt: skip
    inputs = [given.get(x["name"]) for x in _native.schema("SparseFlashAttentionGrad")["inputs"]]
    attrs = {"scale_value": scale, "sparse_mode": 0}
    one, many = (
        _native.run("SparseFlashAttentionGrad", inputs, attrs, num_threads=n)[:3] for n in (1, 5)
    )
    for ours, same, right in zip(one, many, expected, strict=True):
        assert ours.tobytes() == same.tobytes()
        assert np.abs(ours.reshape(right.shape) - right).max() <= 1e-5 * np.abs(right).max()


def test_scratch_does_not_grow_with_the_keys():
    picks = np.random.default_rng(7).integers(0, 100_000, (1, 4, 1, 512)).astype(np.int32)
    query, key = draw(8, 1, 4, 16, 64), draw(9, 1, 100_000, 1, 64)
    _native.reset_scratch_high_water()
    out, _, _ = attend(query, key, key, picks, sparse_mode=0)
    assert out.any() and _native.scratch_high_water() < _native.num_threads() * (1 << 20)


def test_gradient_by_finite_differences():
    """In float64: the definition that the kernels are compared with."""
    rng = np.random.default_rng(10)
    shapes = [(1, 3, 4, 5), (1, 9, 2, 5), (1, 9, 2, 6), (1, 3, 4, 2), (1, 9, 2, 2), (4,)]
    query, key, value, query_rope, key_rope, sinks = (rng.standard_normal(s) for s in shapes)
    indices = rng.integers(-1, 5, (1, 3, 2, 4)).astype(np.int32)
    attrs = {"sparse_block_size": 2, "attention_mode": 2}

    def forward(query, key, value, query_rope, key_rope, sinks):
        return reference.sparse_flash_attention(
            query, key, value, indices, 0.7, query_rope=query_rope, key_rope=key_rope,
            sinks=sinks, return_softmax_lse=True, **attrs)  # fmt: skip

    def loss(*operands):
        out, top, total = forward(*operands)
        return (out * dout).sum() + (weights * (top + np.log(total))).sum()

    operands = [query, key, value, query_rope, key_rope, sinks]
    out, _, total = forward(*operands)
    dout, weights = rng.standard_normal(out.shape), rng.standard_normal(total.shape)
    slopes = reference.sparse_flash_attention_grad(
        query, key, value, indices, out, dout, query_rope, key_rope, sinks, scale_value=0.7,
        softmax_sum_grad=weights / total, **attrs)  # fmt: skip
    for place, slope in enumerate(slopes):
        for at in np.ndindex(operands[place].shape):
            step = np.zeros_like(operands[place])
            step[at] = 1e-6
            up, down = (
                loss(*operands[:place], operands[place] + sign * step, *operands[place + 1 :])
                for sign in (1, -1)
            )
            assert abs((up - down) / 2e-6 - slope[at]) < 1e-7, place
