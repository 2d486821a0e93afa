"""Calls like one before: the rules run once, with the Tensors of the moment; graphs log nothing."""

import mindspore as ms
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
        rules_called(graph, x)
        assert [rules_called(graph, x) for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("mode", ["graph", "jit_O0", "jit_O1"])
def test_a_graph_logs_no_error(mode, capfd):
    """MindSpore opens the file of every function, of one whose source was written, too."""
    given = arguments("nsa_selected_attention")
    query = given.pop("query")

    def slope(x):
        return ms.grad(lambda q: mindspore_nsa.nsa_selected_attention(q, **given)[0].sum())(x)

    with context_mode(mode):
        in_mode(mode, slope)(query).asnumpy()
    assert "ERROR" not in capfd.readouterr().err
