"""Operators that read or write a cache, on target ascend_twin in MindSpore."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa
from mindspore_nsa.reference import nsa_compress_with_cache as reference
from tests.ops.calls import context_mode, in_mode

PAGES, PAGE, HEADS, DIM, SLOTS = 6, 16, 2, 32, 5
TABLE = Tensor(np.array([[5, 0, 2], [1, 3, 4]], np.int32))


def draw(*shape, dtype=ms.float16):
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return Tensor(values.astype(np.float32)).astype(dtype)


def operands(dtype=ms.float16):
    return draw(PAGES, PAGE, HEADS, DIM, dtype=dtype), draw(32, HEADS, dtype=dtype)


def compress(x, weight, cache, slots, lengths, table=TABLE):
    return mindspore_nsa.nsa_compress_with_cache(
        *(x, weight, slots, 32, 16, PAGE), block_table=table, actual_seq_len=lengths, cache=cache
    )


@pytest.mark.parametrize("list_dtype", [ms.int64, ms.int32], ids=str)
@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16], ids=str)
@pytest.mark.parametrize("mode", ["pynative", "graph", "jit_O0"])
def test_the_cache_is_written_in_place(mode, dtype, list_dtype):
    """Token after token, without a new graph; what reads the result sees it, too."""
    x, weight = operands(dtype)
    cache = ms.ops.zeros((SLOTS, HEADS, DIM), dtype)
    expected = np.zeros((SLOTS, HEADS, DIM))

    def step(x, weight, cache, slots, lengths):
        return compress(x, weight, cache, slots, lengths)

    numbers = [t.astype(ms.float32).asnumpy() for t in (x, weight)]
    with mindspore_nsa.target("ascend_twin"), context_mode(mode):
        function = in_mode(mode, step)
        for slots, lengths in (((1, 3), (48, 32)), ((0, 2), (33, 48)), ((4, 4), (0, 31))):
            out = function(x, weight, cache, *(Tensor(n, list_dtype) for n in (slots, lengths)))
            expected = reference(
                *(*numbers, slots, 32, 16, PAGE),
                block_table=TABLE.asnumpy(), actual_seq_len=lengths, cache=expected,
            )  # fmt: skip
            for tensor in (out, cache):
                error = np.abs(tensor.astype(ms.float32).asnumpy() - expected).max()
                assert error <= (2.0**-9 if dtype == ms.float16 else 2.0**-6) * abs(expected).max()


# Arguments that are wrong, with what the error says; nothing is written.
WRONG = {
    "slot twice": ({"slots": (3, 3)}, "slot_mapping must be without repetition"),
    "slot": ({"slots": (1, SLOTS)}, r"slot_mapping must be in \[0, 5\), the rows of cache"),
    "length": ({"lengths": (49, 32)}, "actual_seq_len must be at most the 48 tokens"),
    "page": ({"table": Tensor(np.full((2, 3), 6, np.int32))}, "block_table must be of pages"),
    "view": ({"cache": ms.ops.zeros((6, SLOTS, HEADS, DIM), ms.float16)[1]}, "must be no view"),
}


@pytest.mark.parametrize("target", ["cpu", "ascend_twin"])
@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_the_errors_are_those_of_the_cpu(name, as_tensors, target):
    x, weight = operands()
    given = {
        "cache": ms.ops.zeros((SLOTS, HEADS, DIM), ms.float16),
        "slots": (1, 3),
        "lengths": (48, 32),
    }
    changed, words = WRONG[name]
    given.update(changed)
    if as_tensors:
        given.update({n: Tensor(given[n], ms.int64) for n in ("slots", "lengths")})
    with mindspore_nsa.target(target), pytest.raises(ValueError, match=words):
        compress(x, weight, **given)
    assert not given["cache"].asnumpy().any()


@pytest.mark.parametrize("target", ["cpu", "ascend_twin"])
def test_a_wrong_page_in_a_graph(target):
    """Known when the operator runs, which writes nothing then."""
    x, weight = operands()
    cache = ms.ops.zeros((SLOTS, HEADS, DIM), ms.float16)
    table = Tensor(np.array([[5, 0, 6], [1, 3, 4]], np.int32))

    def step(x, weight, cache, table):
        return compress(x, weight, cache, (1, 3), (48, 32), table) * 1

    with mindspore_nsa.target(target), context_mode("graph"):
        with pytest.raises(RuntimeError, match=r"block_table must be of pages in \[0, 6\), got 6"):
            in_mode("graph", step)(x, weight, cache, table).asnumpy()
    assert not cache.asnumpy().any()


def selected(query, key, value, blocks, lengths, counts, table):
    return mindspore_nsa.nsa_selected_attention_infer(
        *(query, key, value, blocks, DIM**-0.5, 4, HEADS, 32, 2, PAGE),
        layout="TND", block_table=table, actual_seq_qlen=counts, actual_seq_kvlen=lengths,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16], ids=str)
@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_selected_attention(mode, dtype):
    """The output is the CPU's within rounding, for rows that grow without a new graph."""
    query = draw(3, 4, DIM, dtype=dtype)
    caches = [draw(PAGES, PAGE, HEADS, size, dtype=dtype) for size in (DIM, 16)]
    blocks = Tensor(np.array([[1, 0], [0, -1], [0, 0], [1, 5], [0, 1], [1, 0]], np.int32))
    blocks = blocks.reshape((3, HEADS, 2))
    for lengths, counts in (((48, 40), (2, 1)), ((33, 32), (0, 3)), ((3, 48), (3, 0))):
        lists = [Tensor(n, ms.int64) for n in (lengths, counts)]
        expected = selected(query, *caches, blocks, *lists, TABLE).astype(ms.float32).asnumpy()
        with mindspore_nsa.target("ascend_twin"), context_mode(mode):
            out = in_mode(mode, selected)(query, *caches, blocks, *lists, TABLE)
        assert out.dtype == dtype
        error = np.abs(out.astype(ms.float32).asnumpy() - expected).max()
        assert error <= (2.0**-9 if dtype == ms.float16 else 2.0**-6) * np.abs(expected).max()


def compressed(query, key, value, compressed, lengths, counts, table):
    return mindspore_nsa.nsa_compress_attention_infer(
        *(query, key, value, DIM**-0.5, 4, HEADS, 16, 2, PAGE, 8, 4),
        layout="TND", block_table=table, actual_seq_qlen=counts, actual_cmp_seq_kvlen=compressed,
        actual_sel_seq_kvlen=lengths, init_blocks=1, local_blocks=1,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16], ids=str)
@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_compressed_attention(mode, dtype):
    """Output and blocks are the CPU's within rounding, for rows that grow."""
    query = draw(3, 4, DIM, dtype=dtype)
    caches = [draw(PAGES, PAGE, HEADS, size, dtype=dtype) for size in (DIM, 16)]
    for lengths, counts in (((190, 40), (2, 1)), ((33, 32), (0, 3)), ((3, 195), (3, 0))):
        windows = [max(0, (n - 8) // 4 + 1) for n in lengths]
        lists = [Tensor(n, ms.int64) for n in (windows, lengths, counts)]
        expected, chosen = compressed(query, *caches, *lists, TABLE)
        expected = expected.astype(ms.float32).asnumpy()
        with mindspore_nsa.target("ascend_twin"), context_mode(mode):
            out, blocks = in_mode(mode, compressed)(query, *caches, *lists, TABLE)
        assert out.dtype == dtype
        error = np.abs(out.astype(ms.float32).asnumpy() - expected).max()
        assert error <= (2.0**-9 if dtype == ms.float16 else 2.0**-6) * np.abs(expected).max()
        assert np.array_equal(blocks.asnumpy(), chosen.asnumpy())


@pytest.mark.parametrize("target", ["cpu", "ascend_twin"])
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"compressed": (10, 9)}, "actual_cmp_seq_kvlen must be the 8 windows"),
        ({"table": Tensor(np.full((2, 3), 6, np.int32))}, "block_table must be of pages"),
        ({"counts": (41, -38)}, "actual_seq_qlen must be"),
        ({"lengths": (44, 2), "compressed": (10, 0), "counts": (0, 3)}, "actual_sel_seq_kvlen"),
    ],
)
def test_the_errors_of_compressed_attention(changed, words, target):
    given = {"compressed": (10, 8), "lengths": (44, 36), "counts": (2, 1), "table": TABLE}
    caches = [draw(PAGES, PAGE, HEADS, DIM) for _ in range(2)]
    with mindspore_nsa.target(target), pytest.raises(ValueError, match=words):
        compressed(draw(3, 4, DIM), *caches, **{**given, **changed})


def decoded(query, gates, cmp_key, cmp_value, key, value, win_key, win_value, lengths, counts):
    return mindspore_nsa.nsa_decode(
        query, gates, cmp_key, cmp_value, key, value, win_key, win_value, DIM**-0.5, 4, 8, 4, 16, 3,
        12, layout="TND", block_table=TABLE, actual_seq_qlen=counts, actual_seq_kvlen=lengths,
        init_blocks=1, local_blocks=1,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16], ids=str)
@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_decoding(mode, dtype):
    """All three branches, likewise."""
    query = draw(3, 4, DIM, dtype=dtype)
    gates = Tensor(np.random.default_rng(4).random((3, 3, 4), np.float32))
    places = ((2, 11), (PAGES, PAGE), (2, 15))
    caches = [draw(*n, HEADS, size, dtype=dtype) for n in places for size in (DIM, 16)]
    for lengths, counts in (((48, 40), (2, 1)), ((33, 32), (0, 3)), ((3, 47), (3, 0))):
        lists = [Tensor(n, ms.int64) for n in (lengths, counts)]
        expected = decoded(query, gates, *caches, *lists).astype(ms.float32).asnumpy()
        with mindspore_nsa.target("ascend_twin"), context_mode(mode):
            out = in_mode(mode, decoded)(query, gates, *caches, *lists)
        assert out.dtype == dtype
        error = np.abs(out.astype(ms.float32).asnumpy() - expected).max()
        assert error <= (2.0**-9 if dtype == ms.float16 else 2.0**-6) * np.abs(expected).max()


@pytest.mark.parametrize("target", ["cpu", "ascend_twin"])
@pytest.mark.parametrize(
    ("lengths", "counts", "words"),
    [
        ((49, 40), (2, 1), "actual_seq_kvlen must be at most the 48 tokens"),
        ((48, 0), (2, 1), "actual_seq_kvlen must be at least the 1 queries"),
        ((48, 40), (3, 1), "actual_seq_qlen must be of a sum that is T"),
    ],
)
def test_the_errors_of_decoding(lengths, counts, words, target):
    places = ((2, 11), (PAGES, PAGE), (2, 15))
    caches = [draw(*n, HEADS, DIM) for n in places for _ in range(2)]
    gates = ms.ops.ones((3, 3, 4), ms.float32)
    with mindspore_nsa.target(target), pytest.raises(ValueError, match=words):
        decoded(draw(3, 4, DIM), gates, *caches, lengths, counts)


def test_limits():
    with mindspore_nsa.target("ascend_twin"):
        with pytest.raises(TypeError, match="input must be of dtype float16 or bfloat16 on Ascend"):
            x, weight = operands(ms.float32)
            compress(x, weight, ms.ops.zeros((SLOTS, HEADS, DIM)), (1, 3), (48, 32))
        with pytest.raises(ValueError, match="D of input must be a multiple of 16 on Ascend"):
            x, weight = draw(PAGES, PAGE, HEADS, 24), draw(32, HEADS)
            compress(x, weight, ms.ops.zeros((SLOTS, HEADS, 24), ms.float16), (1, 3), (48, 32))
        with pytest.raises(ValueError, match="Dv of value must be a multiple of 16 on Ascend"):
            caches = draw(PAGES, PAGE, HEADS, DIM), draw(PAGES, PAGE, HEADS, 24)
            blocks = ms.ops.zeros((2, HEADS, 2), ms.int32)
            selected(draw(2, 4, DIM), *caches, blocks, (48, 40), (1, 1), TABLE)
