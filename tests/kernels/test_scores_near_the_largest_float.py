"""Scores near the largest and smallest float32, which times log2(e) are none: their softmax is that
of the definition in every attention."""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.dtypes import encode
from tests.common.cases import Case, compare

# D = 8 products of 2^62 and 2^62 times 1.5 or 1.75: scores of 2.55e38 and 2.98e38, which are exact.
D, DV, N1, N2, TOKENS, QUERIES = 8, 5, 4, 2, 40, 3
LARGE = 2.0**62
FACTORS = (1.5, 1.75)
LISTS = {"actual_seq_qlen": np.array([QUERIES]), "actual_seq_kvlen": np.array([TOKENS])}
RULE = {"compress_block_size": 4, "compress_stride": 2, "select_block_size": 8,
        "select_block_count": 3, "importance": "overlap"}  # fmt: skip


class Drawn:
    """Tensors whose scores are all of one sign, or where `mixed` of both."""

    def __init__(self, sign, dtype):
        self.rng, self.sign, self.dtype = np.random.default_rng(int(sign) + 2), sign, dtype

    def query(self, *shape):
        return encode(np.full((*shape, D), LARGE, np.float32), self.dtype)

    def key(self, *shape):
        factors = self.rng.choice(FACTORS, (*shape, 1))
        signs = self.rng.choice((-1, 1), (*shape, 1)) if self.sign == 0 else self.sign
        keys = np.broadcast_to(LARGE * factors * signs, (*shape, D))
        return encode(keys.astype(np.float32), self.dtype)

    def value(self, *shape):
        return encode(self.rng.standard_normal((*shape, DV), np.float32), self.dtype)

    def pair(self, *shape):
        return {"key": self.key(*shape), "value": self.value(*shape)}


def decode(draw):
    sizes = {"cmp": (TOKENS - 4) // 2 + 1, "slc": TOKENS, "win": 16}
    inputs = {"query": draw.query(QUERIES, N1), **LISTS}
    for branch, size in sizes.items():
        pair = draw.pair(1, size, N2)
        inputs |= {f"{kind}_{branch}": x for kind, x in pair.items()}
    inputs["gates"] = np.random.default_rng(1).random((QUERIES, 3, N1), np.float32)
    return "NsaDecode", inputs, RULE | {"window_size": 9, "head_num": N1}


def compress_infer(draw):
    windows = (TOKENS - 4) // 2 + 1
    inputs = {
        "query": draw.query(QUERIES, N1),
        **draw.pair(1, windows, N2),
        "actual_seq_qlen": LISTS["actual_seq_qlen"],
        "actual_cmp_seq_kvlen": np.array([windows]),
        "actual_sel_seq_kvlen": LISTS["actual_seq_kvlen"],
    }
    attrs = {"head_num": N1, "key_value_head_num": N2, "page_block_size": windows}
    return "NsaCompressAttentionInfer", inputs, RULE | attrs


def selected_infer(draw):
    inputs = {"query": draw.query(QUERIES, N1), **draw.pair(1, TOKENS, N2), **LISTS}
    inputs["topk_indices"] = np.tile(np.int32([3, -1, 0]), (QUERIES, N2, 1))
    attrs = {"head_num": N1, "key_value_head_num": N2, "page_block_size": TOKENS,
             "select_block_size": 8, "select_block_count": 3, "layout": "TND"}  # fmt: skip
    return "NsaSelectedAttentionInfer", inputs, attrs


def selected(draw):
    inputs = {"query": draw.query(QUERIES, N1), **draw.pair(TOKENS, N2), **LISTS}
    inputs["topk_indices"] = np.tile(np.int32([3, -1, 0]), (QUERIES, N2, 1))
    attrs = {"head_num": N1, "select_block_size": 8, "select_block_count": 3, "causal": 0}
    return "NsaSelectedAttention", inputs, attrs


def dense(draw):
    inputs = {"query": draw.query(QUERIES, N1), **draw.pair(TOKENS, N2), **LISTS}
    attrs = {"head_num": N1, "input_layout": "TND", "keep_prob": 1.0, "sparse_mode": 0,
             "pre_tokens": 2**31 - 1, "next_tokens": 2**31 - 1, "pse_type": 1}  # fmt: skip
    return "FlashAttentionScore", inputs, attrs | {"scalar_value": 1.0}


def sparse(draw):
    inputs = {"query": draw.query(1, QUERIES, N1), **draw.pair(1, TOKENS, N2)}
    inputs["sparse_indices"] = np.tile(np.arange(-1, 30, dtype=np.int32), (1, QUERIES, N2, 1))
    return "SparseFlashAttention", inputs, {"return_softmax_lse": 1}


CALLS = {f.__name__: f for f in (decode, compress_infer, selected_infer, selected, dense, sparse)}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("sign", [-1.0, 0.0, 1.0])
def test_the_definition(isa, name, dtype, sign):
    op, inputs, attrs = CALLS[name](Drawn(sign, dtype))
    if op != "FlashAttentionScore":
        attrs = {"scale_value": 1.0, **attrs}
    case = Case.of(op, inputs, attrs, dtype)
    compare(case, _native.run(case.op, case.inputs, case.attrs))
