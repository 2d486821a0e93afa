"""The pooling of windows of tokens is the softmax-weighted sum, in float64 NumPy."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa.ops import _window_pool, compressor

SIZE, DIM = 3, 4


def _drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _windows(kv, gate, ape, overlap):
    """Values and logits [m, D] of every window of a segment [S, c D]."""
    for end in range(SIZE, len(kv) + 1, SIZE):
        own = slice(end - SIZE, end)
        if not overlap:
            yield ((own, slice(DIM), slice(SIZE)),)
        else:
            parts = ((own, slice(DIM, None), slice(SIZE)),)
            if end > SIZE:
                parts = ((slice(end - 2 * SIZE, end - SIZE), slice(DIM), slice(SIZE)), *parts)
            yield parts


def _pooled(kv, gate, ape, overlap, slope):
    """Entries of one segment, and the gradients for their `slope`, in float64."""
    kv, gate, ape = (x.astype(np.float64) for x in (kv, gate, ape))
    entries, gradients = [], [np.zeros_like(x) for x in (kv, gate, ape)]
    for number, parts in enumerate(_windows(kv, gate, ape, overlap)):
        values = np.concatenate([kv[tokens, dims] for tokens, dims, _ in parts])
        logits = [gate[tokens, dims] + ape[slots, dims] for tokens, dims, slots in parts]
        weights = np.exp(np.concatenate(logits))
        weights /= weights.sum(0)
        entries.append((weights * values).sum(0))
        of_values = weights * slope[number]
        of_logits = of_values * (values - entries[-1])
        for i, (tokens, dims, slots) in enumerate(parts):
            here = slice(i * SIZE, (i + 1) * SIZE)
            gradients[0][tokens, dims] += of_values[here]
            gradients[1][tokens, dims] += of_logits[here]
            gradients[2][slots, dims] += of_logits[here]
    return np.array(entries).reshape(-1, DIM), gradients


def _check(arrays, lengths, overlap, dtype, slope, options, unpacked, error):
    given = tuple(Tensor(x).astype(dtype) for x in arrays)
    rounded = [x.float().asnumpy() for x in given]

    def loss(kv, gate, ape):
        entries, sums = compressor(kv, gate, ape, overlap=overlap, **options)
        return (entries * Tensor(slope)).sum(), entries, sums

    both = ms.value_and_grad(loss, (0, 1, 2), has_aux=True)
    (_, entries, sums), got = both(*given)
    # A graph takes seconds to compile: one of packed segments, one of rows.
    graph = overlap and dtype == ms.float32 and max(lengths) > SIZE
    (_, again, _), of_graph = (ms.jit(both) if graph else both)(*given)
    want, gradients, first, row = [], [np.zeros_like(x) for x in rounded], 0, 0
    for length in lengths:
        part = slice(first, first + length)
        segment = [x.reshape(-1, x.shape[-1])[part] for x in rounded[:2]]
        count = length // SIZE
        rows = slope.reshape(-1, DIM)[row : row + count]
        found, of_segment = _pooled(*segment, rounded[2], overlap, rows)
        want.append(found)
        for gradient, part_of in zip(gradients[:2], of_segment):
            gradient.reshape(-1, gradient.shape[-1])[part] += part_of
        gradients[2] += of_segment[2]
        first, row = first + length, row + (max(count, 1) if unpacked else count)
    want = np.concatenate(want)
    flat = entries.asnumpy().reshape(-1, DIM)
    assert sums.asnumpy().tolist() == np.cumsum([0, *(n // SIZE for n in lengths)]).tolist()
    np.testing.assert_allclose(flat[: len(want)], want, atol=error)
    assert not flat[len(want) :].any()
    np.testing.assert_allclose(again.asnumpy(), entries.asnumpy(), atol=error)
    for mine, other, theirs in zip(got, of_graph, gradients, strict=True):
        assert mine.dtype == dtype
        np.testing.assert_allclose(mine.float().asnumpy(), theirs, atol=error)
        np.testing.assert_allclose(other.float().asnumpy(), theirs, atol=error)


@pytest.mark.parametrize("overlap", [False, True])
def test_packed_segments(overlap):
    lengths, width = (7, 1, 0, 9, 3), DIM * (2 if overlap else 1)
    arrays = _drawn(0, 20, width), _drawn(1, 20, width), _drawn(2, SIZE, width)
    sums = Tensor(np.cumsum([0, *lengths]))
    _check(
        arrays, lengths, overlap, ms.float32, _drawn(3, 6, DIM), {"cu_seqlens": sums}, False, 5e-6
    )


@pytest.mark.parametrize("length, dtype", [(8, ms.float32), (2, ms.float32), (6, ms.bfloat16)])
def test_rows(length, dtype):
    arrays = _drawn(0, 2, length, 2 * DIM), _drawn(1, 2, length, 2 * DIM), _drawn(2, SIZE, 2 * DIM)
    slope = _drawn(3, 2, max(length // SIZE, 1), DIM)
    error = 5e-6 if dtype == ms.float32 else 0.02
    _check(arrays, (length,) * 2, True, dtype, slope, {}, True, error)


def test_pieces_change_no_bit(monkeypatch):
    arrays = [Tensor(_drawn(i, 1, 30, DIM)) for i in range(2)] + [Tensor(_drawn(2, SIZE, DIM))]
    both = ms.value_and_grad(lambda *x: compressor(*x)[0].sum(), (0, 1, 2))
    want, right = both(*arrays)
    # Pieces of four windows, and of twelve rows.
    monkeypatch.setattr(_window_pool, "_PIECE", 4 * _window_pool._ALIVE * SIZE * DIM * 4)
    _window_pool._planned_rows.forget()
    assert len(_window_pool.pieces_of_rows(10, SIZE * DIM)) == 3
    value, gradients = both(*arrays)
    _window_pool._planned_rows.forget()
    assert float(value) == float(want)
    for mine, theirs in zip(gradients[:2], right[:2], strict=True):
        np.testing.assert_array_equal(mine.asnumpy(), theirs.asnumpy())
    np.testing.assert_allclose(gradients[2].asnumpy(), right[2].asnumpy(), atol=1e-6)


RIGHT = dict(kv=_drawn(0, 2, 7, 8), gate=_drawn(1, 2, 7, 8), ape=_drawn(2, 3, 8))
WRONG = [
    ({"kv": None}, TypeError, "kv must be a Tensor, got None"),
    ({"kv": _drawn(0, 7, 8)}, ValueError, "kv must be of rank 3"),
    ({"gate": _drawn(0, 2, 7, 4)}, ValueError, r"gate must be of shape \(2, 7, 8\)"),
    ({"ape": _drawn(0, 3, 4)}, ValueError, r"ape must be of shape \(3, 8\)"),
    ({"ape": np.zeros((3, 8), np.int32)}, TypeError, "ape must be of dtype"),
    ({"overlap": 1}, TypeError, "overlap must be a bool"),
    ({"cu_seqlens": np.int64([0, 7])}, ValueError, "kv must be of rank 2"),
]


@pytest.mark.parametrize("wrong, error, text", WRONG)
def test_wrong_arguments(wrong, error, text):
    given = {**RIGHT, **wrong}
    given = {k: Tensor(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
    with pytest.raises(error, match=f"^compressor: {text}"):
        compressor(**given)


def test_odd_channels_and_wrong_sums():
    kv, ape = Tensor(_drawn(0, 7, 5)), Tensor(_drawn(2, 3, 5))
    with pytest.raises(ValueError, match="compressor: kv must have two sets of channels"):
        compressor(kv, kv, ape, overlap=True, cu_seqlens=Tensor([0, 7]))
    with pytest.raises(ValueError, match="compressor: cu_seqlens must be prefix sums that begin"):
        compressor(kv, kv, ape, cu_seqlens=Tensor([0, 8]))
