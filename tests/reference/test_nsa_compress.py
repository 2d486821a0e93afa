import numpy as np
import pytest

from mindspore_nsa.reference import compressed_seq_len, nsa_compress, nsa_compress_grad
from tests.common.differences import check_gradient


def test_by_hand():
    x = np.arange(1.0, 8.0).reshape(7, 1, 1)  # tokens 1 ... 7, segments of 5 and 2
    w = np.array([[1.0], [10.0]])
    out = nsa_compress(x, w, 2, 2, actual_seq_len=[5, 7])
    # Token 5 fills no window; the second segment starts anew at token 6.
    np.testing.assert_array_equal(out.ravel(), [1 + 20, 3 + 40, 6 + 70])
    dx, dw = nsa_compress_grad(np.array([[[1.0]], [[2.0]], [[3.0]]]), x, w, 2, 2,
                               actual_seq_len=[5, 7])  # fmt: skip
    np.testing.assert_array_equal(dx.ravel(), [1, 10, 2, 20, 0, 3, 30])
    np.testing.assert_array_equal(dw.ravel(), [1 + 6 + 18, 2 + 8 + 21])


def brute_force(x, w, l, s, seq):  # noqa: E741
    rows, start = [], 0
    for end in seq:
        at = start
        while at + l <= end:
            rows.append(sum(w[j][:, None] * x[at + j] for j in range(l)))
            at += s
        start = end
    return np.array(rows).reshape(-1, *x.shape[1:])


@pytest.mark.parametrize("l, s", [(1, 1), (4, 4), (5, 2), (3, 1), (7, 3)])
@pytest.mark.parametrize("seq", [[20], [0, 0, 9, 9, 20], [1, 2, 3, 13], [4], [2, 2]])
def test_against_loops(l, s, seq):  # noqa: E741
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((seq[-1], 3, 2)), rng.standard_normal((l, 3))
    out = nsa_compress(x, w, l, s, actual_seq_len=seq)
    expected = brute_force(x, w, l, s, seq)
    assert compressed_seq_len(seq, l, s)[-1] == len(expected)
    np.testing.assert_allclose(out, expected, rtol=1e-12)


@pytest.mark.parametrize("l, s, seq", [(5, 2, [0, 9, 9, 11, 21]), (4, 4, [10]), (3, 1, [2, 8])])
def test_gradients(l, s, seq):  # noqa: E741
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((seq[-1], 2, 3)), rng.standard_normal((l, 2))
    dy = rng.standard_normal(nsa_compress(x, w, l, s, actual_seq_len=seq).shape)
    dx, dw = nsa_compress_grad(dy, x, w, l, s, actual_seq_len=seq)

    def loss():
        return (nsa_compress(x, w, l, s, actual_seq_len=seq) * dy).sum()

    check_gradient(loss, x, dx, rng)
    check_gradient(loss, w, dw, rng)


def test_extra_rows_are_zero_and_not_read():
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((8, 1, 2)), rng.standard_normal((4, 1))
    out = nsa_compress(x, w, 4, 2, actual_seq_len=[8], num_windows=5)
    assert out.shape == (5, 1, 2)
    assert not out[3:].any() and out[:3].all()
    dy = np.full((5, 1, 2), np.nan)
    dy[:3] = 1
    exact = nsa_compress_grad(dy[:3], x, w, 4, 2, actual_seq_len=[8])
    for got, expected in zip(nsa_compress_grad(dy, x, w, 4, 2, actual_seq_len=[8]), exact):
        np.testing.assert_array_equal(got, expected)
    with pytest.raises(ValueError, match="num_windows must be at least 3, got 2"):
        nsa_compress(x, w, 4, 2, actual_seq_len=[8], num_windows=2)


def test_compressed_seq_len():
    assert compressed_seq_len([0, 128, 272], 32, 16) == [0, 7, 15]
    assert compressed_seq_len([0, 5, 49], 32, 16) == [0, 0, 1]
    assert compressed_seq_len([80, 176, 256], 64, 16) == [2, 5, 7]
