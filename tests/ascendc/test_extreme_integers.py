"""The largest and smallest integers as attributes and indices of the Ascend kernels, on the twin:
no product of an index and a size wraps, and rows without compressed tokens list no block."""

import numpy as np
import pytest

from mindspore_nsa import _native

TWIN = "ascend_twin"
SIZES = (512, 2**31, 2**32, 2**33, 2**60 - 1)
INDICES = (-(2**31), -2, 2**31 - 1)


def half(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(np.float16)


def run(op, given, attrs):
    names = [spec["name"] for spec in _native.schema(op)["inputs"]]
    return _native.run(op, [given.get(name) for name in names], attrs, target=TWIN)


@pytest.mark.parametrize("paged", [False, True])
def test_blocks_of_a_cache(paged):
    """Index 0 of a block that is longer than all is every token, and any other none."""
    given = {
        "query": half(0, 2, 4, 16),
        "key": half(1, 2, 48, 2, 16),
        "value": half(2, 2, 48, 2, 16),
        "actual_seq_kvlen": np.array([48, 20]),
    }
    attrs = {"scale_value": 0.25, "head_num": 4, "key_value_head_num": 2, "page_block_size": 48,
             "select_block_count": 3, "layout": "TND"}  # fmt: skip
    if paged:
        given |= {name: given[name].reshape(6, 16, 2, 16) for name in ("key", "value")}
        given["block_table"] = np.arange(6, dtype=np.int32).reshape(2, 3)
        attrs["page_block_size"] = 16
    results = set()
    for size in SIZES:
        for index in (-1, *INDICES):
            picks = np.tile(np.int32([index, 0, index]), (2, 2, 1))
            out = run("NsaSelectedAttentionInfer", {**given, "topk_indices": picks},
                      attrs | {"select_block_size": size})[0]  # fmt: skip
            assert out.any()
            results.add(out.tobytes())
    assert len(results) == 1


def test_picks_of_a_sequence():
    given = {
        "query": half(0, 20, 4, 16),
        "key": half(1, 50, 2, 16),
        "value": half(2, 50, 2, 16),
        "actual_seq_qlen": np.array([20]),
        "actual_seq_kvlen": np.array([50]),
    }
    attrs = {"scale_value": 0.25, "head_num": 4, "select_block_size": 16, "select_block_count": 3,
             "causal": 0}  # fmt: skip
    results = set()
    for index in (-1, *INDICES):
        picks = np.tile(np.int32([2, index, 0]), (20, 2, 1))
        out = run("NsaSelectedAttention", {**given, "topk_indices": picks}, attrs)[0]
        assert out.any()
        results.add(out.tobytes())
    assert len(results) == 1


@pytest.mark.parametrize("size", [2**30, 2**57, 2**60 - 1])
def test_strides_of_a_gradient(size):
    """No query sees a window that is longer than all: the gradients are 0."""
    out = half(0, 40, 2, 16)
    rows = np.zeros((40, 2, 8), np.float32)
    given = {
        **{"query": out, "dy": out, "attention_in": 0 * out},
        **{"key": half(1, 70, 1, 16), "value": half(2, 70, 1, 16)},
        **{"softmax_max": rows - np.finfo(np.float32).max},
        **{"softmax_sum": rows + np.finfo(np.float32).max},
        **{"actual_seq_qlen": np.array([40]), "actual_seq_kvlen": np.array([70])},
    }
    attrs = {"head_num": 2, "keep_prob": 1.0, "scalar_value": 0.25, "pre_tokens": 2**31 - 1,
             "next_tokens": 2**31 - 1, "input_layout": "TND", "sparse_mode": 0, "pse_type": 1,
             "compress_block_size": size, "compress_stride": size, "pse_grad": 0}  # fmt: skip
    for gradient in run("FlashAttentionScoreGrad", given, attrs)[:3]:
        assert not gradient.any()


@pytest.mark.parametrize("importance", ["cann", "overlap"])
def test_rows_without_compressed_tokens(importance):
    given = {
        "query": half(0, 3, 2, 16),
        "key": half(1, 3, 16, 1, 16),
        "value": half(2, 3, 16, 1, 16),
        "actual_cmp_seq_kvlen": np.array([0, 12, 0]),
    }
    attrs = {"scale_value": 0.25, "head_num": 2, "select_block_size": 64, "select_block_count": 3}
    attrs |= {"compress_block_size": 64, "compress_stride": 16, "importance": importance}
    of_caches = {"key_value_head_num": 1, "page_block_size": 16}
    out, blocks = run("NsaCompressAttentionInfer", given, attrs | of_caches)
    assert (blocks[[0, 2]] == -1).all() and (blocks[1, 0, :1] >= 0).all()
    assert not out[[0, 2]].any() and out[1].any()
    lists = {"actual_seq_qlen": [1, 2, 3], "actual_cmp_seq_kvlen": [0, 12, 12]}
    whole = {name: np.array(x) for name, x in lists.items()}
    whole |= {"query": given["query"], "key": given["key"][1], "value": given["value"][1]}
    np.testing.assert_array_equal(
        run("NsaCompressAttention", whole, attrs | {"causal": 0})[1], blocks
    )
