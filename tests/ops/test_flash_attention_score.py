"""flash_attention_score and dropout_mask."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

import mindspore_nsa

from .calls import run
from .case_bits import check_bits, named_cases
from .operators import draw

CASES = named_cases("flash", "flash_grad")
MODES = pytest.mark.parametrize("mode", ["pynative", "graph"])


@pytest.mark.parametrize("build, mode", CASES)
def test_named_case(build, mode):
    check_bits(build, mode)


@MODES
def test_return_softmax(mode):
    q = draw(2, 33, 32)

    def plain(q):
        return mindspore_nsa.flash_attention_score(q, q, q, 2, scalar_value=0.3)

    def more(q):
        return mindspore_nsa.flash_attention_score(
            q, q, q, 2, scalar_value=0.3, return_softmax=True, inner_precise=4
        )

    def maximum(q):
        return more(q)[1].sum()

    def total(q):
        return more(q)[2].sum()

    out, row_max, row_sum = run(mode, more, q)
    assert np.array_equal(out, run(mode, plain, q))
    assert row_max.shape == row_sum.shape == (2, 2, 33, 8)
    assert not run(mode, ms.grad(maximum), q).any()
    assert run(mode, ms.grad(total), q).any()


@MODES
def test_gradients_of_every_input(mode):
    """A bias and a sink are trained, masks are not, and slopes have no gradient."""
    q, bias, slopes, sink = draw(2, 24, 32), draw(2, 4, 24, 24), draw(4), draw(4)
    mask = Tensor(np.triu(np.ones((24, 24), np.uint8), 1))

    def biased(q, bias, sink, mask):
        return mindspore_nsa.flash_attention_score(
            q, q, q, 4, bias, attn_mask=mask, scalar_value=0.3, sink=sink
        )

    def sloped(q, slopes):
        return mindspore_nsa.flash_attention_score(q, q, q, 4, slopes, pse_type=3)

    grads = run(mode, ms.grad(biased, (0, 1, 2, 3)), q, bias, sink, mask)
    assert [g.shape for g in grads] == [q.shape, bias.shape, sink.shape, mask.shape]
    assert all(g.any() for g in grads[:3]) and not grads[3].any()
    assert run(mode, ms.grad(sloped), q, slopes).any()
    error = ValueError if mode == "pynative" else RuntimeError
    with pytest.raises(error, match="real_shift must be a position bias where its gradient"):
        run(mode, ms.grad(sloped, (0, 1)), q, slopes)


@MODES
def test_dropout_mask_of_a_seed_tensor(mode):
    """The seed may change without a new graph, and the bits are those of a constant seed."""

    def of_tensor(seed):
        return mindspore_nsa.dropout_mask(0.75, 1001, seed)

    seen = set()
    for seed in (0, 1, 12345, -7):
        expected = mindspore_nsa.dropout_mask(0.75, 1001, seed).asnumpy()
        assert expected.shape == (126,) and expected.dtype == np.uint8
        for tensor in (Tensor(seed, ms.int64), Tensor([seed], ms.int32)):
            assert np.array_equal(run(mode, of_tensor, tensor), expected)
        seen.add(expected.tobytes())
    assert len(seen) == 4


@MODES
def test_dropout(mode):
    """Training and its gradient use the same mask; keep_prob scales what is kept."""
    q, v = draw(1, 64, 16), draw(1, 64, 16)

    def dropped(q, v, seed):
        mask = mindspore_nsa.dropout_mask(0.5, 64 * 64, seed)
        return mindspore_nsa.flash_attention_score(
            q, q, v, 1, drop_mask=mask, keep_prob=0.5, scalar_value=0.25
        )

    first, again, other = (run(mode, dropped, q, v, Tensor(s)) for s in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    # Linear in v: the gradient with respect to v does not depend on v.
    slope = ms.grad(dropped, 1)
    np.testing.assert_array_equal(run(mode, slope, q, v, Tensor(1)),
                                  run(mode, slope, q, v * 2, Tensor(1)))  # fmt: skip
    keep = np.unpackbits(mindspore_nsa.dropout_mask(0.5, 64 * 64, 1).asnumpy(), bitorder="little")
    scores = 0.25 * q.asnumpy()[0] @ q.asnumpy()[0].T
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True) * keep.reshape(64, 64) / 0.5
    np.testing.assert_allclose(first[0], p @ v.asnumpy()[0], atol=1e-5)


@MODES
@pytest.mark.parametrize("pse_type", [2, 3])
@pytest.mark.parametrize("form", ["list", "tensor"])
def test_rows_start_at_their_own_positions(mode, pse_type, form):
    """Queries of rows of different lengths, packed, have the distances of each row alone."""
    tokens, news = (9, 4, 17), (1, 2, 3)
    q, k, slopes = draw(sum(news), 4, 16), draw(sum(tokens), 2, 16), draw(4)
    starts = tuple(t - n for t, n in zip(tokens, news))
    q_ends, k_ends = (tuple(int(x) for x in np.cumsum(y)) for y in (news, tokens))

    def attend(q, k, q_start, kv_start, q_ends, k_ends):
        return mindspore_nsa.flash_attention_score(
            q, k, k, 4, slopes, scalar_value=0.25, input_layout="TND", sparse_mode=3,
            pse_type=pse_type, q_start_idx=q_start, kv_start_idx=kv_start,
            actual_seq_qlen=q_ends, actual_seq_kvlen=k_ends)  # fmt: skip

    def loss(q, k, q_start, kv_start, q_ends, k_ends):
        return ops.square(attend(q, k, q_start, kv_start, q_ends, k_ends)).sum()

    outs, grads = [], []
    for q_end, k_end, n, t, start in zip(q_ends, k_ends, news, tokens, starts):
        alone = q[q_end - n : q_end], k[k_end - t : k_end], start, 0, (n,), (t,)
        outs.append(attend(*alone).asnumpy())
        grads.append(ms.grad(loss)(*alone).asnumpy())
    lists = starts, q_ends, k_ends
    if form == "tensor":
        lists = tuple(Tensor(x, ms.int64) for x in lists)
    shift = 5 if form == "list" else Tensor([5, 5, 5], ms.int64)
    moved = tuple(s + 5 for s in starts) if form == "list" else lists[0] + 5

    def packed(q, k):
        return attend(q, k, moved, shift, lists[1], lists[2])

    def slope(q, k):
        return ms.grad(loss)(q, k, moved, shift, lists[1], lists[2])

    close = {"atol": 1e-6, "rtol": 1e-5}
    np.testing.assert_allclose(run(mode, packed, q, k), np.concatenate(outs), **close)
    np.testing.assert_allclose(run(mode, slope, q, k), np.concatenate(grads), **close)
