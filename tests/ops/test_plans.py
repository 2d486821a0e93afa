"""A planner names its arguments by the signature of the function that calls it."""

import ast
import importlib
import inspect

import pytest

from mindspore_nsa.ops._plan import Planner

MODULES = (
    "nn.packing",
    "ops._layer",
    "ops._sequence",
    "ops.dropout_mask",
    "ops.flash_attention_score",
    "ops.nsa_compress",
    "ops.nsa_compress_attention",
    "ops.nsa_compress_attention_infer",
    "ops.nsa_compress_with_cache",
    "ops.nsa_decode",
    "ops.nsa_selected_attention",
    "ops.nsa_selected_attention_infer",
)


def planners():
    """(module, name of a planner, its function)"""
    for module in MODULES:
        module = importlib.import_module(f"mindspore_nsa.{module}")
        for name, planner in vars(module).items():
            if isinstance(planner, Planner):
                yield pytest.param(module, name, planner, id=name)


@pytest.mark.parametrize("module, name, planner", list(planners()))
def test_called_in_the_order_of_the_signature(module, name, planner):
    planner._resolve()
    function = getattr(module, planner._function)
    calls = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(function)))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == name
    ]
    assert len(calls) == 1
    assert tuple(ast.unparse(argument) for argument in calls[0].args) == planner._names
    assert planner._names == tuple(inspect.signature(function).parameters)


@pytest.mark.parametrize("module, name, planner", list(planners()))
def test_what_it_reads_are_arguments(module, name, planner):
    planner._resolve()
    assert planner._mask_names <= set(planner._names)
    assert {planner._names[i] for i in planner._lists} <= planner._list_names
    assert len(planner._read) == len(planner._lists) + len(planner._mask_names)
    if planner._list_names:
        assert planner._lists
