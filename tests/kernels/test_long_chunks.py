"""NsaSelectedAttention and its gradient in the longer chunks that long sequences have."""

import numpy as np
import pytest

from benchmarks import workloads
from mindspore_nsa import _native
from tests.common.case import Case, compare

# So many heads that a sequence is long for them: three queries are a chunk.
TOKENS, HEADS, DIM = 150, 512, 8
# The same of the forward on tiles, where shorter sequences have two.
FORWARD_TOKENS, FORWARD_DIM = 200, 32


def test_forward():
    """A query's bits do not tell how long the text is that comes after it."""
    case = workloads.selected(
        FORWARD_TOKENS, "bfloat16", heads=HEADS, kv_heads=1, dim=FORWARD_DIM
    ).forward
    named = case.named()
    ends = np.array([TOKENS], np.int64)
    inputs = {
        **{name: _first(named[name]) for name in ("query", "key", "value", "topk_indices")},
        **{"actual_seq_qlen": ends, "actual_seq_kvlen": ends},
    }
    short = Case.of(case.op, inputs, case.attrs, case.dtype)
    whole, other, start = (
        _native.run(c.op, c.inputs, c.attrs, num_threads=threads)
        for c, threads in ((case, 1), (case, 3), (short, 2))
    )
    assert [_bytes(x) for x in whole] == [_bytes(x) for x in other]
    assert [_bytes(_first(x)) for x in whole] == [_bytes(x) for x in start]


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


def _first(x):
    return (x[0], x[1][:TOKENS]) if isinstance(x, tuple) else x[:TOKENS]


def _bytes(x):
    return (x[1] if isinstance(x, tuple) else x).tobytes()
