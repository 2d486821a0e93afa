"""A call that was made before: the rules run once more, with the Tensors of the moment."""

import pytest

import mindspore_nsa
from mindspore_nsa import _native

from .calls import context_mode, in_mode
from .operators import OPERATORS, arguments, call, draw


def rules_called(function, *tensors):
    """How often the rules of operators are called until a function's Tensor is there."""
    before = _native.rules_called()
    function(*tensors).asnumpy()
    return _native.rules_called() - before


@pytest.mark.parametrize("name", OPERATORS)
def test_in_pynative_mode(name):
    """MindSpore asks for shapes and types at every call, and is told what it was told before."""

    def function():
        return call(name)

    rules_called(function)
    assert [rules_called(function) for _ in range(3)] == [1, 1, 1]


def test_in_a_graph():
    weight = arguments("nsa_compress")["weight"]

    def function(x):
        return mindspore_nsa.nsa_compress(x, weight, 16, 8, actual_seq_len=(40, 96))

    with context_mode("graph"):
        graph, x = in_mode("graph", function), draw(96, 2, 16)
        assert rules_called(graph, x) > 1
        assert [rules_called(graph, x) for _ in range(3)] == [1, 1, 1]
