"""Properties that hold whatever the numbers are."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa
from mindspore_nsa import reference

from .calls import gradient, to_numpy
from .operators import draw

SEQ = (37, 100)  # two segments
T, N1, N2, D, DV = 100, 4, 2, 16, 24
L, S, SELECT, COUNT = 8, 4, 8, 4
CMP = mindspore_nsa.compressed_seq_len(SEQ, L, S)


def chosen_blocks():
    """Per query: block 0, its own and two seeded earlier ones or -1; never a future one."""
    rng = np.random.default_rng(5)
    blocks = np.full((T, N2, COUNT), -1, np.int32)
    for begin, end in zip((0, *SEQ), SEQ):
        for t in range(begin, end):
            own = (t - begin) // SELECT
            for h in range(N2):
                blocks[t, h, 0] = 0
                blocks[t, h, 1] = own if own else -1
                blocks[t, h, 2:] = rng.integers(-1, own + 1, 2)
    return blocks


def select(q, k, v, seq=SEQ, blocks=None):
    blocks = chosen_blocks() if blocks is None else blocks
    return mindspore_nsa.nsa_selected_attention(
        q, k, v, Tensor(blocks), 0.25, N1, SELECT, COUNT, actual_seq_qlen=seq,
        actual_seq_kvlen=seq, causal=True)[0]  # fmt: skip


def flash(q, k, v, seq=SEQ):
    return mindspore_nsa.flash_attention_score(
        q, k, v, N1, scalar_value=0.25, input_layout="TND", sparse_mode=3, actual_seq_qlen=seq,
        actual_seq_kvlen=seq)  # fmt: skip


def compress_attention(q, x, w, seq=SEQ):
    """Compression and attention over it: causal in the tokens x."""
    k = mindspore_nsa.nsa_compress(x, w, L, S, actual_seq_len=seq)
    return mindspore_nsa.nsa_compress_attention(
        q, k, k, 0.25, N1, L, S, SELECT, COUNT, actual_seq_qlen=seq, causal=True, init_blocks=1,
        local_blocks=2)[0]  # fmt: skip


def changed_from(x, t):
    """x with other values at tokens t and later."""
    values = x.asnumpy().copy()
    values[t:] = values[t:] * -2 + 1
    return Tensor(values)


ATTENTION = (draw(T, N1, D), draw(T, N2, D), draw(T, N2, DV))
COMPRESSED = (draw(T, N1, D), draw(T, N2, D), draw(L, N2))
# The function, its inputs, and how many of them are token sequences.
CAUSAL = {
    "nsa_selected_attention": (select, ATTENTION, 3),
    "flash_attention_score": (flash, ATTENTION, 3),
    "nsa_compress_attention": (compress_attention, COMPRESSED, 2),
}
POSITIONS = (9, 36, 60, 99)


@pytest.mark.parametrize("t", POSITIONS)
@pytest.mark.parametrize("name", CAUSAL)
def test_tokens_do_not_see_the_future(name, t):
    """Changing tokens from t on changes no output and no dQ before t."""
    function, inputs, sequences = CAUSAL[name]
    later = [changed_from(x, t) for x in inputs[:sequences]] + list(inputs[sequences:])
    out = function(*inputs)
    upstream = draw(*out.shape)
    run = gradient(function, tuple(range(len(inputs))), upstream)
    before, after = to_numpy(run(*inputs)), to_numpy(run(*later))
    assert before[0][:t].tobytes() == after[0][:t].tobytes()
    assert before[1][0][:t].tobytes() == after[1][0][:t].tobytes()
    assert before[0][:t].any()
    assert not np.array_equal(before[0], after[0])


@pytest.mark.parametrize("t", POSITIONS)
@pytest.mark.parametrize("name", ["nsa_selected_attention", "flash_attention_score"])
def test_gradients_do_not_come_from_the_future(name, t):
    """With no output gradient from t on, dK, dV and dQ are those of the shorter text, and 0 after.

    "The shorter text" is the same text with other tokens from t on.
    """
    function, inputs, _ = CAUSAL[name]
    upstream = draw(T, N1, DV).asnumpy().copy()
    upstream[t:] = 0
    run = gradient(function, (0, 1, 2), Tensor(upstream))
    before = to_numpy(run(*inputs))[1]
    after = to_numpy(run(*(changed_from(x, t) for x in inputs)))[1]
    for a, b in zip(before, after):
        assert a[:t].tobytes() == b[:t].tobytes() and a[:t].any()
        assert not a[t:].any() and not b[t:].any()


def test_compressed_gradients_do_not_come_from_the_future():
    """Windows that end at token t or later get no gradient from queries before t."""
    t = 60
    q, x, w = COMPRESSED
    upstream = draw(T, N1, D).asnumpy().copy()
    upstream[t:] = 0
    run = gradient(compress_attention, (0, 1, 2), Tensor(upstream))
    before = to_numpy(run(q, x, w))[1]
    after = to_numpy(run(changed_from(q, t), changed_from(x, t), w))[1]
    for a, b in zip(before[:2], after[:2]):
        assert a[:t].tobytes() == b[:t].tobytes() and a[:t].any()
        assert not a[t:].any() and not b[t:].any()
    assert before[2].tobytes() == after[2].tobytes()


@pytest.mark.parametrize("name", CAUSAL)
def test_segments_are_independent(name):
    """A packed batch gives what its segments give alone, and so do its gradients."""
    function, inputs, sequences = CAUSAL[name]
    upstream = draw(*function(*inputs).shape)
    positions = tuple(range(sequences))
    packed = to_numpy(gradient(function, positions, upstream)(*inputs))
    blocks = chosen_blocks()
    for begin, end in zip((0, *SEQ), SEQ):
        own = [x[begin:end] for x in inputs[:sequences]] + list(inputs[sequences:])
        options = {"blocks": blocks[begin:end]} if function is select else {}

        def alone(*args, end=end, begin=begin, options=options):
            return function(*args, seq=(end - begin,), **options)

        single = to_numpy(gradient(alone, positions, upstream[begin:end])(*own))
        np.testing.assert_allclose(packed[0][begin:end], single[0], rtol=1e-6, atol=1e-6)
        for a, b in zip(packed[1], single[1]):
            np.testing.assert_allclose(a[begin:end], b, rtol=1e-5, atol=1e-5)


def test_empty_segments_change_nothing():
    for function, inputs, _ in CAUSAL.values():
        expected = function(*inputs).asnumpy()
        for seq in ((0, 37, 100), (37, 37, 100), (37, 100, 100, 100)):
            assert function(*inputs, seq=seq).asnumpy().tobytes() == expected.tobytes()


def test_all_blocks_are_dense_attention():
    """Selecting every block is causal attention; gradients too."""
    count = -(-max(37, 63) // SELECT)
    blocks = Tensor(np.broadcast_to(np.arange(count, dtype=np.int32), (T, N2, count)).copy())

    def everything(q, k, v):
        return mindspore_nsa.nsa_selected_attention(
            q, k, v, blocks, 0.25, N1, SELECT, count, actual_seq_qlen=SEQ, actual_seq_kvlen=SEQ,
            causal=True)[0]  # fmt: skip

    upstream = draw(T, N1, DV)
    sparse = to_numpy(gradient(everything, (0, 1, 2), upstream)(*ATTENTION))
    dense = to_numpy(gradient(flash, (0, 1, 2), upstream)(*ATTENTION))
    np.testing.assert_allclose(sparse[0], dense[0], rtol=1e-5, atol=1e-5)
    for a, b in zip(sparse[1], dense[1]):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_order_of_blocks_changes_no_bit(dtype):
    inputs = [x.astype(getattr(ms, dtype)) for x in ATTENTION]
    blocks = chosen_blocks()
    shuffled = np.random.default_rng(7).permuted(blocks, axis=-1)
    assert not np.array_equal(blocks, shuffled)
    upstream = draw(T, N1, DV)
    results = []
    for order in (blocks, shuffled):

        def function(q, k, v, order=order):
            return select(q, k, v, blocks=order)

        results.append(to_numpy(gradient(function, (0, 1, 2), upstream)(*inputs)))
    (out, grads), (out2, grads2) = results
    assert out.tobytes() == out2.tobytes()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(grads, grads2))


def test_runs_repeat_bit_for_bit():
    for function, inputs, _ in CAUSAL.values():
        upstream = draw(*function(*inputs).shape)
        run = gradient(function, tuple(range(len(inputs))), upstream)
        first, second = to_numpy(run(*inputs)), to_numpy(run(*inputs))
        assert first[0].tobytes() == second[0].tobytes()
        assert all(a.tobytes() == b.tobytes() for a, b in zip(first[1], second[1]))


def test_query_offset_continues_a_text():
    """Queries of the second half, placed by q_offset, give the second half of the whole."""
    half = 56
    q, k, v = (x[:T] for x in ATTENTION)
    blocks = np.zeros((T, N2, COUNT), np.int32)
    own = np.arange(T) // SELECT
    blocks[:, :, 1] = np.where(own > 0, own, -1)[:, None]
    blocks[:, :, 2:] = -1
    whole = select(q, k, v, seq=(T,), blocks=blocks).asnumpy()
    part = mindspore_nsa.nsa_selected_attention(
        q[half:], k, v, Tensor(blocks[half:]), 0.25, N1, SELECT, COUNT,
        actual_seq_qlen=(T - half,), actual_seq_kvlen=(T,), causal=True,
        q_offset=(half,))[0].asnumpy()  # fmt: skip
    np.testing.assert_allclose(part, whole[half:], rtol=1e-6, atol=1e-6)


def test_dropout_mask_is_the_reference():
    for keep, numel, seed in ((0.9, 1000, 1), (0.5, 7, -3), (1.0, 64, 0)):
        keep32 = float(np.float32(keep))
        ours = mindspore_nsa.dropout_mask(keep, numel, seed).asnumpy()
        assert np.array_equal(ours, reference.dropout_mask(keep32, numel, seed))
