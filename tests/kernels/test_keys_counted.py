"""Each query reads each visible key once: at the ends of windows, blocks, pages and segments, which
lie at those of the kernels' tiles, in every dtype and on every target."""

from functools import partial

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.dtypes import DTYPES, decode, encode
from tests.common import decode_cases
from tests.common.cases import OUTPUTS, Case
from tests.common.counted import (
    check_counts,
    check_gradient_counts,
    counting,
    gradient_counting,
    replaced,
)
from tests.common.draw import Draw
from tests.common.flash_cases import flash_attention_score_grad_of
from tests.common.nsa_cases import selected_attention_grad_of
from tests.common.parity import causal_compress_attention, flash, selected
from tests.common.tiles import around, tile

CPU, ASCEND = tile("kTileKeys"), tile("kTileKeys", "ascendc/attention/attention_sizes.h")
KV_BLOCK = tile("kKvBlockKeys")
DIM = 64
MOST = 4 * max(CPU, ASCEND)


def _packed_flash(draw, size, mode=0, **rest):
    """Segments that end before, at and behind a tile's end, and one of several tiles."""
    keys = np.cumsum([*around(size), 2 * size + 1])
    queries = np.cumsum([7, 9, 20, 22])
    return flash(
        *(draw, "TND", 4, 2, 1, queries[-1], keys[-1], DIM),
        **{"mode": mode, "seq_q": queries, "seq_kv": keys, **rest},
    )


def _selected(draw, size, causal=False, more=0):
    """Blocks of half a tile, or a bit more, and one of what is left.

    One is chosen twice, and a place holds none.
    """
    keys, blocks = np.cumsum(around(2 * size)), 4
    indices = np.tile(np.arange(blocks), (60, 1, 1))
    indices[::3, 0, 1], indices[1::3, 0, 2] = 0, -1
    ends, sizes = np.array([13, 30, 60]), (2, 1, DIM, DIM, blocks)
    return selected(
        draw, ends, keys, *sizes, select=size // 2 + more, causal=causal, indices=indices
    )


def _compressed(draw, size):
    """The compressed keys of the last queries end before, at and behind a tile's end."""
    windows = np.array(around(size))
    ends = np.cumsum(windows * 2 + 2)
    return causal_compress_attention(
        draw, ends, 2, 1, DIM, DIM, l=4, s=2, select=4, count=4, local=1
    )


CALLS = {
    "flash": _packed_flash,
    "flash, causal": partial(_packed_flash, mode=3),
    # A window as long as a tile.
    "flash, window": lambda draw, size: _packed_flash(draw, size, 4, pre=size - 1, next_tokens=0),
    "flash, band": lambda draw, size: _packed_flash(draw, size, 4, pre=size, next_tokens=KV_BLOCK),
    "selected": _selected,
    "selected, causal": partial(_selected, causal=True),
    "selected, odd blocks": partial(_selected, more=1),
    "compressed": _compressed,
}


def _run(case, target="cpu"):
    return _native.run(case.op, case.inputs, case.attrs, num_threads=2, target=target)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_forward(isa, dtype, name):
    case = counting(CALLS[name](Draw(0, dtype), CPU), DIM)
    check_counts(case, _run(case)[0], DIM, MOST)


@pytest.mark.parametrize(
    "name", ["flash, causal", "flash, window", "selected, causal", "compressed"]
)
def test_forward_on_ascend(name):
    case = counting(CALLS[name](Draw(0, "float16"), ASCEND), DIM)
    check_counts(case, _run(case, "ascend_twin")[0], DIM, MOST)


GRADIENTS = {"flash": flash_attention_score_grad_of, "selected": selected_attention_grad_of}


def _gradient(dtype, name, side, size):
    draw = Draw(0, dtype)
    gradient_of = GRADIENTS[name.split(",")[0]]
    return gradient_counting(CALLS[name](draw, size), lambda x: gradient_of(x, draw), side)


@pytest.mark.parametrize("side", ["query", "key"])
@pytest.mark.parametrize("name", [name for name in CALLS if name != "compressed"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients(isa, dtype, name, side):
    case = _gradient(dtype, name, side, CPU)
    check_gradient_counts(case, _run(case), side, group=2)


@pytest.mark.parametrize("side", ["query", "key"])
@pytest.mark.parametrize("name", ["flash, window", "selected, causal"])
def test_gradients_on_ascend(name, side):
    case = _gradient("float16", name, side, ASCEND)
    check_gradient_counts(case, _run(case, "ascend_twin"), side, group=2)


DECODING = {
    "NsaCompressAttentionInfer": decode_cases.nsa_compress_attention_infer,
    "NsaSelectedAttentionInfer": decode_cases.nsa_selected_attention_infer,
    "NsaDecode": decode_cases.nsa_decode,
}


@pytest.mark.parametrize("op", DECODING)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(6))
def test_decoding(isa, seed, dtype, op):
    """NsaDecode runs its branches one after another."""
    case = DECODING[op](Draw(seed, dtype))
    named = case.named()
    value = decode(named["value" if op != "NsaDecode" else "value_slc"])
    width = value.shape[-1]
    if value.ndim == 3:
        width //= case.attrs["key_value_head_num"]
    case = counting(case, width)
    for branch in range(3 if op == "NsaDecode" else 1):
        if op == "NsaDecode":
            gates = np.zeros(decode(named["gates"]).shape, np.float32)
            gates[..., branch, :] = 1
            case = replaced(case, gates=gates)
        check_counts(case, _run(case)[0], width, 2000)


def _sparse(dtype, block):
    """Tokens or blocks of them, in an order that is not theirs, beside a place that holds none."""
    rng = np.random.default_rng(0)
    queries, keys, picks = 12, CPU + 3, CPU // block + 1
    blocks = -(-keys // block)
    indices = np.stack([rng.permutation(blocks)[:picks] for _ in range(queries)]).astype(np.int32)
    indices = np.pad(indices, ((0, 0), (0, max(0, picks - indices.shape[1]))), constant_values=-1)
    indices[::3, -1] = -1
    value = np.zeros((1, keys, 1, DIM), np.float32)
    value[0, np.arange(keys), 0, np.arange(keys) % DIM] = 1
    inputs = {
        "query": encode(np.zeros((1, queries, 2, DIM)), dtype),
        "key": encode(rng.standard_normal((1, keys, 1, DIM)), dtype),
        "value": encode(value, dtype),
        "sparse_indices": indices.reshape(1, queries, 1, -1),
    }
    attrs = {
        **{"scale_value": 0.125, "sparse_block_size": block, "sparse_mode": 3},
        **{"return_softmax_lse": 0, "layout_query": "BSND", "layout_kv": "BSND"},
    }
    return Case.of("SparseFlashAttention", inputs, attrs, dtype)


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_flash_attention(isa, dtype, block):
    case = _sparse(dtype, block)
    check_counts(case, _run(case)[0], DIM, MOST)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_lost_key_is_found(dtype):
    """One of the most that a row has, and one that is read twice."""
    case = counting(CALLS["flash"](Draw(0, dtype), CPU), DIM)
    out = _run(case)[0]
    row, keys = -1, 2 * CPU + 1
    for change in (-1, 1):
        counts = np.rint(decode(out)[row, 0] * keys)
        assert counts.sum() == keys
        counts[3] += change
        wrong = decode(out).copy()
        wrong[row, 0] = counts / counts.sum()
        with pytest.raises(AssertionError, match=r"1 of \d+ rows, .* columns \[3\]"):
            check_counts(case, encode(wrong, dtype), DIM, MOST)


@pytest.mark.parametrize("side", ["query", "key"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_lost_term_is_found(dtype, side):
    """The largest element of each gradient without the term of one head, or of one key."""
    case = _gradient(dtype, "flash", side, CPU)
    outputs = list(_run(case))
    for name in ("dv", "dk" if side == "key" else "dq"):
        place = OUTPUTS[case.op].index(name)
        wrong = decode(outputs[place]).copy()
        columns = wrong[..., 1:] if name == "dv" else wrong
        at = np.unravel_index(np.abs(columns).argmax(), columns.shape)
        # dq sums three keys of a column, the others the two heads of a group.
        columns[at] *= 2 / 3 if name == "dq" else 1 / 2
        faulty = [*outputs]
        faulty[place] = encode(wrong, dtype)
        with pytest.raises(AssertionError, match=f": {name} at .* 1 elements"):
            check_gradient_counts(case, faulty, side, group=2)
