"""NsaSelectedAttention and its gradient in the longer chunks that long sequences have."""

import pytest

from benchmarks import workloads
from mindspore_nsa import _native
from tests.common.case import compare

# So many heads that a sequence is long for them: three queries are a chunk.
TOKENS, HEADS, DIM = 150, 512, 8
# The same of the forward on tiles.
FORWARD_TOKENS, FORWARD_DIM = 200, 32


def test_forward():
    case = workloads.selected(
        FORWARD_TOKENS, "bfloat16", heads=HEADS, kv_heads=1, dim=FORWARD_DIM
    ).forward
    one, three = (
        _native.run(case.op, case.inputs, case.attrs, num_threads=threads) for threads in (1, 3)
    )
    compare(case, one)
    assert [_bytes(x) for x in one] == [_bytes(x) for x in three]


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


def _bytes(x):
    return (x[1] if isinstance(x, tuple) else x).tobytes()
