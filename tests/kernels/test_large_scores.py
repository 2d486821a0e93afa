"""Scores in the thousands: gradients agree with their forwards on them."""

import pytest

from mindspore_nsa import _native
from tests.common.large_scores import check_gradient, large_scores


@pytest.mark.parametrize("name", large_scores())
def test_gradient(isa, name):
    workload = large_scores()[name]()
    outputs = _run(workload.forward)
    check_gradient(workload, _run(workload.gradient(outputs)))


def _run(case):
    return _native.run(case.op, case.inputs, case.attrs)
