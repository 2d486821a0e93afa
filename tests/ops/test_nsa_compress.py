"""nsa_compress and compressed_seq_len."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa

from .calls import context_mode, in_mode, run
from .case_bits import check_bits, named_cases
from .operators import N2, D, draw, sequence

CASES = named_cases("compress", "compress_grad")


@pytest.mark.parametrize("build, mode", CASES)
def test_named_case(build, mode):
    check_bits(build, mode)


def test_rows():
    """Exact for a tuple, T // s for a Tensor, num_windows where given."""
    x, w = draw(96, N2, D), draw(16, N2)

    def rows(seq, **options):
        return mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=seq, **options).shape[0]

    assert rows((40, 96)) == rows([40, 96]) == 10
    assert rows(sequence(40, 96)) == 12
    assert rows((40, 96), num_windows=30) == rows(sequence(40, 96), num_windows=30) == 30
    assert rows((10, 20, 96)) == 8


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_no_windows(mode):
    """No segment is as long as a window: an empty output, zero gradients."""
    x, w = draw(48, N2, D), draw(32, N2)

    def forward(x, w):
        return mindspore_nsa.nsa_compress(x, w, 32, 16, actual_seq_len=(16, 32, 48))

    assert run("pynative", forward, x, w).shape == (0, N2, D)

    def spare_rows(x, w):
        return mindspore_nsa.nsa_compress(x, w, 32, 16, actual_seq_len=(16, 32, 48), num_windows=2)

    assert not run(mode, spare_rows, x, w).any()
    for g, t in zip(run(mode, ms.grad(spare_rows, (0, 1)), x, w), (x, w)):
        assert g.shape == t.shape and not g.any()


@pytest.mark.parametrize("mode", ["pynative", "graph", "jit_O0", "jit_bytecode"])
def test_compressed_seq_len(mode):
    def of_tensor(seq):
        return mindspore_nsa.compressed_seq_len(seq, 16, 8)

    rng = np.random.default_rng(0)
    for _ in range(3):
        seq = np.cumsum(rng.integers(0, 60, 7))
        expected = mindspore_nsa.compressed_seq_len(tuple(seq.tolist()), 16, 8)
        lengths = np.diff(seq, prepend=0)
        windows = [(n - 16) // 8 + 1 if n >= 16 else 0 for n in lengths]
        assert expected == tuple(np.cumsum(windows))
        for dtype in (ms.int64, ms.int32):
            ours = run(mode, of_tensor, Tensor(seq, dtype))
            assert tuple(ours.tolist()) == expected
            assert ours.dtype == (np.int64 if dtype == ms.int64 else np.int32)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("window", [(2**31, 8), (2**33, 8), (2**40, 2**33)])
def test_windows_longer_than_an_int32_counts(mode, window):
    """No segment has one, whatever the dtype of the list."""

    def of_tensor(seq):
        return mindspore_nsa.compressed_seq_len(seq, *window)

    for dtype in (ms.int32, ms.int64):
        seq = Tensor([40, 96, 2**31 - 1], dtype)
        assert mindspore_nsa.compressed_seq_len((40, 96, 2**31 - 1), *window) == (0, 0, 0)
        with context_mode(mode):
            sums = in_mode(mode, of_tensor)(seq)
        assert sums.dtype == dtype
        np.testing.assert_array_equal(sums.asnumpy(), [0, 0, 0])


def test_negative_rows():
    """None stands for the number that suffices, and nothing else does."""
    x, w = draw(96, N2, D), draw(16, N2)
    for rows in (-1, -2, np.int64(-1)):
        with pytest.raises(
            ValueError, match=f"nsa_compress: num_windows must be None or >= 0, got {rows}"
        ):
            mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=(40, 96), num_windows=rows)


def test_compressed_seq_len_feeds_attention():
    """In one graph, from a list that changes: compression, then attention over it."""

    class Net(ms.nn.Cell):
        def construct(self, q, x, w, seq):
            k = mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=seq)
            return mindspore_nsa.nsa_compress_attention(
                q, k, k, 0.25, N2, 16, 8, 16, 2, actual_seq_qlen=seq,
                actual_cmp_seq_kvlen=mindspore_nsa.compressed_seq_len(seq, 16, 8),
                causal=True)[0]  # fmt: skip

    q, w = draw(96, N2, D), draw(16, N2)
    net = Net()
    for values in ((40, 96), (7, 96), (96, 96)):
        k = mindspore_nsa.nsa_compress(q, w, 16, 8, actual_seq_len=values)
        cmp = mindspore_nsa.compressed_seq_len(values, 16, 8)
        expected = mindspore_nsa.nsa_compress_attention(
            q, k, k, 0.25, N2, 16, 8, 16, 2, actual_seq_qlen=values, actual_cmp_seq_kvlen=cmp,
            causal=True)[0].asnumpy()  # fmt: skip
        with context_mode("graph"):
            ours = net(q, q, w, sequence(*values)).asnumpy()
        assert np.array_equal(ours, expected) and expected.any()
    assert len(net.compile_cache) == 1
