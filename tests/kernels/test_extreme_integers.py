"""The largest and smallest integers as every operator's attributes, indices and lengths: in a
process of its own, which a product that wraps would end."""

import os
from pathlib import Path

import numpy as np
import pytest

from mindspore_nsa import _native
from tests.common import extreme_integers
from tests.common.children import PACKAGE, python

ROOT = str(Path(__file__).resolve().parents[2])
PROGRAM = """
import sys
from tests.common import extreme_integers
extreme_integers.run(range(2), operators=sys.argv[1:])
"""
# Attributes and indices that some extreme values leave a right call.
ANSWERED = {
    "SparseFlashAttention.sparse_block_size",
    "SparseFlashAttentionGrad.sparse_block_size",
    "SparseFlashAttention.sparse_indices",
    "SparseFlashAttentionGrad.sparse_indices",
    "LightningIndexer.compress_ratio",
    "LightningIndexerGrad.sparse_indices",
    "SparseLightningIndexerGradKLLoss.sparse_indices",
    "NsaSelectedAttention.select_block_size",
    "NsaSelectedAttention.topk_indices",
    "NsaSelectedAttentionGrad.topk_indices",
    "NsaSelectedAttentionInfer.select_block_size",
    "NsaSelectedAttentionInfer.topk_indices",
    "FlashAttentionScore.pre_tokens",
    "FlashAttentionScore.next_tokens",
    "FlashAttentionScoreGrad.next_tokens",
    "NsaDecode.select_block_count",
}


def test_every_operator():
    half = len(extreme_integers.OPERATORS) // 2
    answered = set()
    for operators in (extreme_integers.OPERATORS[:half], extreme_integers.OPERATORS[half:]):
        done = python(PROGRAM, *operators, PYTHONPATH=os.pathsep.join((PACKAGE, ROOT)))
        last = done.stdout.splitlines()[-1:]
        assert done.returncode == 0, f"{last}\n{done.stderr[-2000:]}"
        answered.update(last[0].split()[1:])
    assert answered >= ANSWERED, ANSWERED - answered


@pytest.mark.parametrize("block", [2**32, 2**33, 2**40, 2**60 - 1])
def test_tokens_of_a_block_longer_than_all(block):
    """Index 0 is every token, and any other none."""
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((1, 3, 1, 4), np.float32) for _ in range(2))
    picks = np.tile(np.int32([0, 2**31 - 1]), (1, 3, 1, 1))
    names = [spec["name"] for spec in _native.schema("SparseFlashAttention")["inputs"]]
    given = {"query": q, "key": k, "value": k, "sparse_indices": picks}
    attrs = {"scale_value": 0.5, "sparse_block_size": block}
    out = _native.run("SparseFlashAttention", [given.get(name) for name in names], attrs)[0]
    for row in range(3):
        scores = 0.5 * k[0, : row + 1, 0] @ q[0, row, 0]
        p = np.exp(scores - scores.max())
        np.testing.assert_allclose(out[0, row, 0], p @ k[0, : row + 1, 0] / p.sum(), rtol=1e-5)


@pytest.mark.parametrize("ratio", [21, 2**31, 2**40, 2**60 - 1])
@pytest.mark.parametrize("residual", [0, 19, 20])
def test_keys_of_more_tokens_than_there_are_queries(ratio, residual):
    """The last queries see all keys, those before the residual all but the last."""
    rng = np.random.default_rng(1)
    query, key = (rng.standard_normal((1, n, 1, 4), np.float32) for n in (20, 3))
    inputs = [query, key, None, None, None, np.array([residual]), None]
    indices, _ = _native.run(
        "LightningIndexer", inputs, {"sparse_count": 3, "compress_ratio": ratio}
    )
    seen = (indices[0, :, 0] >= 0).sum(-1)
    before = 20 - 1 - residual
    assert (seen[: max(before, 0)] == 2).all() and (seen[max(before, 0) :] == 3).all()


def test_pages_named_many_times():
    """A table may make a row of more tokens than positions count: an error."""
    key = np.zeros((1, 1 << 12, 1, 1), np.float32)
    table = np.zeros((1, 1 << 20), np.int32)
    lengths = np.array([1 << 32])
    for op, attrs, more in (
        ("LightningIndexer", {"sparse_count": 1, "layout_key": "PA_BSND"}, {}),
        (
            "SparseFlashAttention",
            {"scale_value": 1.0, "layout_kv": "PA_BSND"},
            {"value": key, "sparse_indices": np.zeros((1, 1, 1, 1), np.int32)},
        ),
    ):
        of_key = "actual_seq_lengths_key" if op == "LightningIndexer" else "actual_seq_lengths_kv"
        given = {"query": key[:, :1], "key": key, "block_table": table, of_key: lengths, **more}
        names = [spec["name"] for spec in _native.schema(op)["inputs"]]
        with pytest.raises(ValueError, match=f"{of_key} must be at most the largest position"):
            _native.run(op, [given.get(name) for name in names], attrs)


def test_sizes_whose_product_wraps():
    """2^33 heads of 2^32 would be 2^65 columns, which is 0 in 64 bits, of an empty query."""
    attrs = {"branches": 1, "head_num": 2**33, "kv_head_num": 1, "head_dim": 2**32,
             "value_head_dim": 1, "dtype": "float32"}  # fmt: skip
    with pytest.raises((TypeError, ValueError), match="nsa_split_heads: "):
        _native.infer("NsaSplitHeads", [("float32", (2, 0)), ("float32", (2, 0)),
                                        ("float32", (2, 1, 2**32)), ("float32", (2, 1, 2**32))],
                      attrs)  # fmt: skip


@pytest.mark.parametrize("count", [2**45, 2**58, 2**60 - 1])
def test_outputs_that_no_memory_holds(count):
    """4 rows of 2^60 numbers of 4 bytes would be 2^64 bytes, which an allocator takes for 0."""
    shapes = [("float32", (1, 4, 1, 4)), ("float32", (1, 9, 1, 4))]
    with pytest.raises(ValueError, match="sparse_indices must be of at most 140737488355328 bytes"):
        _native.infer("LightningIndexer", [*shapes, *[None] * 5], {"sparse_count": count})
