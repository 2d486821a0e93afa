"""Gradients of many queries and few keys, which are summed in shares of the queries, and those of a
selection, whose first block has more of them."""

import numpy as np
import pytest

from benchmarks import workloads
from mindspore_nsa import _native
from mindspore_nsa.testing.case import Case, compare
from mindspore_nsa.testing.dtypes import encode
from tests.common.cases import share_cases

HEADS, KV_HEADS, DIM = 4, 2, 16
QUERIES, KEYS = 800, 70


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("tokens", [500, 1200])
def test_compressed(isa, tokens, dtype):
    """Keys of one chunk, and of two, the second of which half of the queries see."""
    workload = workloads.compress_attention(tokens, dtype, HEADS, 1, DIM)
    forward = workload.forward
    check(workload.gradient(_native.run(forward.op, forward.inputs, forward.attrs)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_same_keys_for_all(isa, dtype):
    """Two chunks of keys of each of two heads."""
    rng = np.random.default_rng(4)
    sizes = {"query": (HEADS, QUERIES), "key": (KV_HEADS, KEYS), "value": (KV_HEADS, KEYS)}
    draw = {
        n: encode(rng.standard_normal((1, *s, DIM), np.float32), dtype) for n, s in sizes.items()
    }
    causal = workloads.flash(1, dtype, HEADS, KV_HEADS, DIM)
    attrs = {**causal.forward.attrs, "sparse_mode": 0}
    forward = Case.of("FlashAttentionScore", draw, attrs, dtype)
    out, row_max, row_sum = _native.run(forward.op, forward.inputs, forward.attrs)[:3]
    named = {
        **{**draw, "dy": draw["query"], "attention_in": out},
        **{"softmax_max": row_max, "softmax_sum": row_sum},
    }
    more = {"compress_block_size": 0, "compress_stride": 0, "pse_grad": 0}
    check(Case.of("FlashAttentionScoreGrad", named, {**attrs, **more}, dtype))


@pytest.mark.parametrize("name", share_cases())
def test_named(isa, name):
    """Also of few heads, and of so many that few queries make a chunk."""
    check(share_cases()[name]())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("blocks", [5, 9])
def test_selected(isa, blocks, dtype):
    """Several chunks of keys, the last one cut; all queries see block 0."""
    workload = workloads.selected(64 * blocks - 10, dtype, 16, 1, 32)
    forward = workload.forward
    check(workload.gradient(_native.run(forward.op, forward.inputs, forward.attrs)))


def check(case):
    """Right, with the same bits on any number of threads."""
    ours = [_native.run(case.op, case.inputs, case.attrs, num_threads=n) for n in (1, 2, 5)]
    compare(case, ours[0])
    assert all([_bytes(x) for x in other] == [_bytes(x) for x in ours[0]] for other in ours[1:])


def _bytes(x):
    return None if x is None else (x[1] if isinstance(x, tuple) else x).tobytes()
