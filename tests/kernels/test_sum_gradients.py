"""The gradient of softmax_sum in the attention gradients' kernels."""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.case import INPUTS, Case, compare, run_reference
from mindspore_nsa.testing.dtypes import decode
from tests.common.draw import Draw
from tests.common.flash_cases import flash_attention_score_grad
from tests.common.indexer_cases import sparse_flash_attention_grad
from tests.common.nsa_cases import nsa_selected_attention_grad

from .sweep import instruction_set

GRADIENTS = pytest.mark.parametrize(
    "make",
    [flash_attention_score_grad, nsa_selected_attention_grad, sparse_flash_attention_grad],
    ids=["flash", "selected", "sparse"],
)


def sum_of(case):
    """softmax_sum, an input of the gradients but for that of SparseFlashAttention."""
    named = case.named()
    if "softmax_sum" in named:
        return decode(named["softmax_sum"])
    forward = "SparseFlashAttention"
    inputs = {name: named.get(name) for name in INPUTS[forward]}
    attrs = case.attrs | {"return_softmax_lse": 1}
    return run_reference(Case.of(forward, inputs, attrs, case.dtype))[2]


def given(case, sum_grad):
    """The case with another gradient of softmax_sum."""
    named = {**case.named(), "softmax_sum_grad": sum_grad}
    return Case.of(case.op, named, case.attrs, case.dtype, case.name)


def bits(case):
    """The bytes of every output."""
    outputs = _native.run(case.op, case.inputs, case.attrs)
    return [(x[1] if isinstance(x, tuple) else x).tobytes() for x in outputs]


@GRADIENTS
def test_random_calls(make):
    """On every instruction set: those of tiles of rows, too, whose rows are prepared by units."""
    isas = _native.available_isas()
    for seed in range(5000, 5000 + 4 * len(isas)):
        draw = Draw(seed)
        case = make(draw)
        row_sum = sum_of(case)
        grad = draw.floats(*row_sum.shape) / np.where(row_sum > 1e30, 1, row_sum)
        case = given(case, grad.astype(np.float32))
        case.name = f"seed {seed} on {isas[seed % len(isas)]}"
        with instruction_set(isas[seed % len(isas)]):
            outputs = _native.run(case.op, case.inputs, case.attrs, num_threads=1 + seed % 3)
        compare(case, outputs)


@GRADIENTS
def test_zeros_change_no_bit(make):
    for isa in _native.available_isas():
        with instruction_set(isa):
            for seed in range(6000, 6006):
                case = make(Draw(seed))
                zeros = np.zeros(sum_of(case).shape, np.float32)
                assert bits(given(case, zeros)) == bits(given(case, None))


@GRADIENTS
def test_rows_that_see_nothing(make):
    """Whatever comes for them, also what overflows, goes nowhere."""
    seen = 0
    for seed in range(7000, 7060):
        case = make(Draw(seed))
        row_sum = sum_of(case)
        grad = np.where(row_sum > 1e30, np.float32(3e38), np.float32(0))
        if grad.any() and not grad.all():
            seen += 1
            assert bits(given(case, grad)) == bits(given(case, None))
    assert seen >= 5
