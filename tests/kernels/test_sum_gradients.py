"""The gradient of softmax_sum in the attention gradients' kernels."""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.case import Case, compare
from mindspore_nsa.testing.dtypes import decode
from tests.common.draw import Draw
from tests.common.flash_cases import flash_attention_score_grad
from tests.common.nsa_cases import nsa_selected_attention_grad

from .sweep import instruction_set

GRADIENTS = pytest.mark.parametrize(
    "make", [flash_attention_score_grad, nsa_selected_attention_grad], ids=["flash", "selected"]
)


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
        row_sum = decode(case.named()["softmax_sum"])
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
                zeros = np.zeros(np.shape(case.named()["softmax_sum"]), np.float32)
                assert bits(given(case, zeros)) == bits(given(case, None))


@GRADIENTS
def test_rows_that_see_nothing(make):
    """Whatever comes for them, also what overflows, goes nowhere."""
    seen = 0
    for seed in range(7000, 7060):
        case = make(Draw(seed))
        row_sum = case.named()["softmax_sum"]
        grad = np.where(row_sum > 1e30, np.float32(3e38), np.float32(0))
        if grad.any() and not grad.all():
            seen += 1
            assert bits(given(case, grad)) == bits(given(case, None))
    assert seen >= 5
