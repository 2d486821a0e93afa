"""Scratch of gradients whose keys are floats: what grows with these is no more than is needed."""

import pytest

from benchmarks import workloads
from mindspore_nsa import _native

TOKENS, DIM = 16384, 128
CALLS = {
    "flash": lambda dtype: workloads.flash(TOKENS, dtype, 1, 1, DIM, window=64),
    "selected": lambda dtype: workloads.selected(TOKENS, dtype, 1, 1, DIM),
}
# Keys and values in columns, and of 16 bits the sums of dQ, dK and dV. Not the rows of all keys.
MATRICES = {"float32": 2, "float16": 5}


@pytest.mark.parametrize("dtype", MATRICES)
@pytest.mark.parametrize("op", CALLS)
def test_rows_of_keys_are_not_held(op, dtype):
    workload = CALLS[op](dtype)
    forward = workload.forward
    case = workload.gradient(_native.run(forward.op, forward.inputs, forward.attrs))
    _native.reset_scratch_high_water()
    _native.run(case.op, case.inputs, case.attrs, num_threads=2)
    held = _native.scratch_high_water() / (TOKENS * DIM * 4)
    assert MATRICES[dtype] < held < MATRICES[dtype] + 0.7
