"""Gradients of 16 bits of sequences so long that their queries share accumulators in turn."""

import numpy as np
import pytest

from benchmarks import workloads
from mindspore_nsa import _native
from mindspore_nsa.testing.dtypes import decode

# So many elements of a query that few of them are long: more than two ranges.
HEADS, DIM = 64, 256
CALLS = {
    "flash": lambda dtype: workloads.flash(3300, dtype, HEADS, 1, DIM, window=100),
    "selected": lambda dtype: workloads.selected(1400, dtype, HEADS, 1, DIM),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", CALLS)
def test_gradients(op, dtype):
    """Gradients equal float32's, without ranges, within rounding; scratch is below dq's sums."""
    workload = CALLS[op](dtype)
    forward = workload.forward
    case = workload.gradient(_native.run(forward.op, forward.inputs, forward.attrs))
    _native.reset_scratch_high_water()
    ours, others = (
        _native.run(case.op, case.inputs, case.attrs, num_threads=threads) for threads in (2, 3)
    )
    query = decode(case.inputs[0])
    assert _native.scratch_high_water() < 0.9 * 4 * query.size
    for a, b in zip(ours, others, strict=True):
        np.testing.assert_array_equal(decode(a), decode(b))
    floats = [_widened(x) for x in case.inputs]
    for a, b in zip(ours[:3], _native.run(case.op, floats, case.attrs)[:3], strict=True):
        assert np.abs(decode(a) - b).max() <= 2.0**-7 * np.abs(b).max()


def _widened(x):
    if x is None or not isinstance(x, tuple) and x.dtype != np.float16:
        return x
    return decode(x).astype(np.float32)
