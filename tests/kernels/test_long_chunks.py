"""NsaSelectedAttention and its gradient in the longer chunks that long sequences have."""

import numpy as np
import pytest

from benchmarks import workloads
from mindspore_nsa import _native
from mindspore_nsa.testing.case import Case, compare

# So many heads that a sequence is long for them: three queries are a chunk.
TOKENS, HEADS, DIM = 150, 512, 8
# Tokens of the forward on tiles, where shorter sequences have two.
FORWARD_TOKENS, FORWARD_DIM = 200, 32
# Without tiles a chunk is the longer the fewer blocks of how many a query selects: 16 queries, and
# 8 of the shorter sequence.
FEW_TOKENS, FEW_HEADS, FEW_COUNT = 1024, 64, 4


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_forward(dtype):
    """A query's bits do not tell how long the text is that comes after it."""
    same_start(
        workloads.selected(FORWARD_TOKENS, dtype, heads=HEADS, kv_heads=1, dim=FORWARD_DIM).forward,
        TOKENS,
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_few_blocks_of_many(dtype):
    case = workloads.selected(FEW_TOKENS, dtype, heads=FEW_HEADS, kv_heads=1, dim=DIM).forward
    block = workloads.SELECT // 4
    chosen = workloads.choose_blocks(np.random.default_rng(2), FEW_TOKENS, 1, block, FEW_COUNT)
    attrs = {**case.attrs, "select_block_size": block, "select_block_count": FEW_COUNT}
    case = Case.of(case.op, {**case.named(), "topk_indices": chosen}, attrs, dtype)
    compare(case, _native.run(case.op, case.inputs, case.attrs))
    same_start(case, FEW_TOKENS // 2)


def same_start(case, tokens):
    """One thread and three give equal bits, and so do the first tokens alone with two."""
    named = case.named()
    ends = np.array([tokens], np.int64)
    inputs = {
        **{name: _first(named[name], tokens) for name in ("query", "key", "value", "topk_indices")},
        **{"actual_seq_qlen": ends, "actual_seq_kvlen": ends},
    }
    short = Case.of(case.op, inputs, case.attrs, case.dtype)
    whole, other, start = (
        _native.run(c.op, c.inputs, c.attrs, num_threads=threads)
        for c, threads in ((case, 1), (case, 3), (short, 2))
    )
    assert [_bytes(x) for x in whole] == [_bytes(x) for x in other]
    assert [_bytes(_first(x, tokens)) for x in whole] == [_bytes(x) for x in start]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradient(dtype):
    workload = workloads.selected(TOKENS, dtype, heads=HEADS, kv_heads=1, dim=DIM)
    outputs = _native.run("NsaSelectedAttention", workload.forward.inputs, workload.forward.attrs)
    case = workload.gradient(outputs)
    compare(case, _native.run(case.op, case.inputs, case.attrs))
    one, three = (
        _native.run(case.op, case.inputs, case.attrs, num_threads=threads) for threads in (1, 3)
    )
    assert [_bytes(x) for x in one] == [_bytes(x) for x in three]


def _first(x, tokens):
    return (x[0], x[1][:tokens]) if isinstance(x, tuple) else x[:tokens]


def _bytes(x):
    return (x[1] if isinstance(x, tuple) else x).tobytes()
